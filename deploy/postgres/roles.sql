-- Two roles that never make or change a table:
--
--   seckill_server  serves, sells, adds and edits vouchers
--   seckill_reader  reads: `seckill audit`, `seckill voucher list`, `seckill orders export`
--
-- Run it in the database as the owner of the tables, after `seckill migrate`; it may run again. Tables of
-- later migrations that the same owner applies are included. Give the roles passwords, or certificates, in
-- your own way.

do $$
begin
    if not exists (select from pg_roles where rolname = 'seckill_server') then
        create role seckill_server login;
    end if;
    if not exists (select from pg_roles where rolname = 'seckill_reader') then
        create role seckill_reader login;
    end if;
end
$$;

grant usage on schema public to seckill_server, seckill_reader;

-- The server never deletes; `seckill prune` does, as the owner of the tables.
grant select, insert, update on all tables in schema public to seckill_server;
grant select on all tables in schema public to seckill_reader;
-- `serve` and `doctor` compare sequences with the ids that there are. The server numbers what happens.
grant select on all sequences in schema public to seckill_server, seckill_reader;
grant usage on all sequences in schema public to seckill_server;
alter default privileges in schema public grant select, usage on sequences to seckill_server;
alter default privileges in schema public grant select, insert, update on tables to seckill_server;
alter default privileges in schema public grant select on tables to seckill_reader;

-- The list of migrations is the owner's.
revoke insert, update on _sqlx_migrations from seckill_server;
