sqlite3 a.db 'create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i+1 from n where i<5000) insert into t select i, hex(i*i) from n;'
sqlite3 a.db 'create index i on t(b); delete from t where a%3=0; vacuum; pragma integrity_check; select count(*), sum(a) from t'
sqlite3 a.db .dump > dump.sql && sqlite3 b.db < dump.sql && sqlite3 b.db 'select max(b) from t' && rm a.db b.db
sqlite3 w.db 'pragma locking_mode=exclusive; pragma journal_mode=wal; create table t(a); insert into t values(7); select * from t' && ls && rm w.db
