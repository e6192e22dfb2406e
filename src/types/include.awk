# Puts the install script together: a line
#   --@include FILE NAME=VALUE...
# stands for FILE (beside this one), with each @NAME@ in it replaced.
/^--@include / {
	file = dir "/" $2
	while ((status = (getline line < file)) > 0) {
		for (i = 3; i <= NF; i++) {
			name = value = $i
			sub(/=.*/, "", name)
			sub(/^[^=]*=/, "", value)
			gsub("@" name "@", value, line)
		}
		print line
	}
	if (status < 0) {
		print "cannot read " file > "/dev/stderr"
		exit 1
	}
	close(file)
	next
}
{ print }
