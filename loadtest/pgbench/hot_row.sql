-- The ceiling: a decrement and an order, without what only the service needs. One hot row, one statement, one commit.
-- `voucher` comes from the command line, the sequences from the script.
with taken as (
  update seckill_vouchers set stock = stock - 1
  where voucher_id = :voucher and stock > 0
  returning voucher_id
)
insert into orders (id, user_id, voucher_id, created_at, updated_at)
select nextval('pgbench_order_id'), nextval('pgbench_user_id'), voucher_id, now(), now()
from taken;
