-- The ceiling of group commit: many orders of one voucher in one transaction, by the call that the
-- service makes (migrations/0002_functions.sql), from arrays that are made in the database. `voucher`
-- and `orders` come from the command line, the sequences from the caller. The function returns a row
-- for each order that it did not place: none here.
select * from sell(
  :voucher::bigint,
  array(select nextval('pgbench_order_id') from generate_series(1, :orders)),
  array(select nextval('pgbench_user_id') from generate_series(1, :orders)),
  array_fill(now(), array[:orders::integer]));
