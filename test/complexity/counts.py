"""Numbers that callgrind and `measure` have written."""
import collections
import glob

# valgrind counts the processor's instruction that copies many bytes once for each byte: the C library must not use it
TUNABLES = ":".join("glibc.cpu.x86_%s_threshold=%d" % (what, 1 << 40) for what in ("rep_movsb", "rep_stosb", "non_temporal"))


def instructions(lines):
    """The name, n and instructions that a file of callgrind has."""
    name = total = None
    for line in lines:
        if line.startswith("desc: Trigger: Client Request: "):
            name = line[len("desc: Trigger: Client Request: "):].strip()
        if line.startswith(("summary:", "totals:")):
            total = int(line.split()[1])
    return (*name.split(), total) if name else None


def collect(pattern):
    counts = collections.defaultdict(dict)
    for path in glob.glob(pattern):
        with open(path, encoding="utf-8", errors="replace") as f:
            found = instructions(f)
        if found:
            counts[found[0]][int(found[1])] = found[2]
    return counts


def read_numbers(text):
    """Lines of a name, n and a number."""
    numbers = collections.defaultdict(dict)
    for line in text.splitlines():
        name, n, number = line.split()
        numbers[name][int(n)] = int(number)
    return numbers
