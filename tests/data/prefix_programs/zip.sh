mkdir -p a/b && seq 1 5000 > a/b/c && zip -qr x.zip a && zip -q x.zip a/b/c && unzip -q x.zip -d out && diff -r a out/a
unzip -l x.zip | awk '{print $1, $4}' | tail -3 && rm x.zip
