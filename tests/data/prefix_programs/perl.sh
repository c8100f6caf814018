seq 1 3000 > n && perl -pi.bak -e 's/7/seven/g' n && wc -c n n.bak && mkdir -p d/e && touch d/f d/e/g
perl -MFile::Find -e 'find({wanted => sub { print "$File::Find::name\n" if -f }, no_chdir => 0}, "d")' | sort
perl -e 'open F, "+<", "n"; seek F, 10, 0; print F "XX"; seek F, 0, 0; print scalar <F>; close F; open G, ">>", "n"; print G "end\n"; print tell(G), "\n"; close G; rename "n", "m"; print -s "m", "\n"'
perl -MIO::File -MFile::Copy -MFile::Temp=tempfile -e 'copy("m", "o"); my ($f, $n) = tempfile(DIR => "."); print $f "t"; close $f; unlink $n; print `cat o | wc -l`'
