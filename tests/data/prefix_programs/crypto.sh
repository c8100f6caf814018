seq 1 50000 > n && openssl enc -aes-256-cbc -pbkdf2 -pass pass:x -in n -out e && openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:x -in e -out d && cmp n d && rm e
openssl dgst -sha256 n && sha256sum n d > sums && sha256sum -c sums && md5sum n && curl -s "file://$PWD/n" -o c || cp n c; cmp n c
