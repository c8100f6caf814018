seq 1 20000 > n && sed -i -e '/3$/d' -e 's/^/x/' n && wc -l n && sed -n '5,10w out' n && cat out && sed -i.old '1i first' n && head -2 n
