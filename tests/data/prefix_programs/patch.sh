seq 1 500 > a && sed 's/^7$/seven/; 400d' a > b; diff -u a b > p; patch -s a p && cmp a b && patch -sR a p && seq 1 500 | cmp - a && rm p
echo 'define(x, 42)x' > m && m4 m > out && cat out && echo '2^100' | bc > big && cat big && jq -c . <<< '{"a": [1, 2]}' > j && cat j
