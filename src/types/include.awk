# Puts the install script together: a line
#   --@include FILE TYPE [ORDER]
# stands for FILE (beside this one), with @TYPE@ and @ORDER@ filled in.
/^--@include / {
	file = dir "/" $2
	while ((status = (getline line < file)) > 0) {
		gsub(/@TYPE@/, $3, line)
		gsub(/@ORDER@/, $4, line)
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
