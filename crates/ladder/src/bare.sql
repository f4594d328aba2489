-- Takes the safety net away from under the rungs that must show their flaws: run on a
-- migrated database that is the lab's own. Nothing else differs from the production tables.
alter table orders
    drop constraint orders_one_per_user,
    -- A number that comes again (r21) is not caught by this either.
    drop constraint orders_pkey;
create index orders_by_id on orders (id);
create index orders_of_user on orders (user_id, voucher_id);
alter table seckill_vouchers
    drop constraint stock_never_negative,
    drop constraint stock_never_above_initial;
