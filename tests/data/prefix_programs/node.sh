cat > n.js <<'PROGRAM'
const fs = require('fs'), child = require('child_process');
fs.mkdirSync('a/b', { recursive: true }); fs.writeFileSync('a/b/f', 'x'.repeat(100000)); fs.appendFileSync('a/b/f', 'end');
console.log(fs.statSync('a/b/f').size, fs.readFileSync('a/b/f').subarray(-3).toString(), fs.readdirSync('a'));
fs.copyFileSync('a/b/f', 'g'); fs.renameSync('g', 'h'); fs.symlinkSync('h', 'l'); console.log(fs.realpathSync('l') === process.cwd() + '/h');
console.log(child.execFileSync('wc', ['-c', 'h']).toString(), child.spawnSync('sh', ['-c', 'echo out > o; cat o']).stdout.toString());
fs.createReadStream('h').pipe(fs.createWriteStream('s')).on('finish', () => { console.log(fs.statSync('s').size); fs.rmSync('a', { recursive: true }); });
PROGRAM
node n.js
