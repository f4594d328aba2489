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
    -- Buyer by buyer, so that each is found by the unique index (migration 5 says why).
    return query
    select found.buyer, found.own from (
        select b.buyer,
               (select o.id from orders o where o.voucher_id = voucher and o.user_id = b.buyer) as own
        from unnest(buyers) b (buyer)
    ) found
    where found.own is not null;
end
$$;
