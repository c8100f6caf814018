mkdir -p from/a/b && seq 1 30000 > from/a/numbers && ln -s a/numbers from/link && touch -d @1000000000 from/a/numbers
for way in gzip bzip2 xz zstd; do
    tar --use-compress-program $way -cf $way.tar from && mkdir $way && tar --use-compress-program $way -xpf $way.tar -C $way
    diff -r from $way/from && rm $way.tar
done
tar cf plain.tar from/a && tar rf plain.tar from/link && tar tf plain.tar && tar --delete -f plain.tar from/link && tar tf plain.tar
rm plain.tar && stat -c '%y %n' gzip/from/a/numbers
