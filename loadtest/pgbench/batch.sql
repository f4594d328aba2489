-- The ceiling of group commit: many orders of one voucher in one transaction, in one message of
-- two statements: what migrations/0002_place_orders.sql does, without what only the service needs.
-- Run with the simple protocol, which is the one that takes two statements in one message.
-- `voucher` and `orders` come from the command line, the sequences from who runs this.
select from seckill_vouchers where voucher_id = :voucher for no key update\;
with member as materialized (
  select m.*, (select o.id from orders o
               where o.user_id = m.user_id and o.voucher_id = :voucher) as bought
  from (select nextval('pgbench_order_id') as id, nextval('pgbench_user_id') as user_id, place
        from generate_series(1, :orders) as place) m
), inserted as (
  insert into orders (id, user_id, voucher_id, created_at, updated_at)
  select id, user_id, :voucher, now(), now()
  from member
  where bought is null
  order by place
  limit (select stock from seckill_vouchers where voucher_id = :voucher)
  returning id
)
update seckill_vouchers set stock = stock - (select count(*) from inserted)
where voucher_id = :voucher and exists (select from inserted);
