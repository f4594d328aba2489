-- The ceiling of group commit: many orders of one voucher in one transaction, by the call that the
-- service makes (migrations/0003_place_new_orders.sql), from arrays that are made in the database.
-- `voucher` and `orders` come from the command line, the sequences from who runs this.
select sold from seckill_place_new_orders(
  array(select nextval('pgbench_order_id') from generate_series(1, :orders)),
  array(select nextval('pgbench_user_id') from generate_series(1, :orders)),
  array_fill(:voucher::bigint, array[:orders::integer]),
  array_fill(now(), array[:orders::integer]),
  array[:voucher::bigint], array[:orders::integer], '0');
