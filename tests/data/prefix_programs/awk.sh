for awk in gawk mawk; do
    seq 1 5000 | $awk '{ print $1 > "part" ($1 % 7); print $1 >> "all" } END { close("all"); while ((getline line < "all") > 0) n++; print n; print "x" | "cat > piped"; system("wc -l < part3") }'
    cat part* piped | sort -n | cksum
done
