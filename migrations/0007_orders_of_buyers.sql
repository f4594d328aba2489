-- The orders that some buyers have of one voucher. It takes the place of `owned_orders`, which asks for
-- several vouchers at once: a function of one voucher can run on the database server that has the
-- voucher (`seckill migrate --distribute`). `owned_orders` stays for servers of the release before.
--
-- `enable_seqscan`: as in `place_orders`, a plan that was made when the table was empty must not read it
-- from end to end when it is full.
create function orders_of_buyers(voucher bigint, buyers bigint[])
returns table (buyer_id bigint, order_id bigint)
language plpgsql stable
set enable_seqscan = off
as $$
begin
    return query
    select o.user_id, o.id from orders o
    where o.voucher_id = voucher and o.user_id = any (buyers);
end
$$;
