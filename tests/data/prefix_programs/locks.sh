flock f -c 'echo held' && (flock -n 9 && flock -n f -c true || echo busy) 9> f && (exec 8> f; flock 8; flock -u 8; flock -n f -c 'echo free')
mkdir d && flock d echo directory && flock -s d flock -s d echo shared && flock -n d flock -n d echo never || echo refused
