-- The functions: the clock of sales, the one function that places orders, and the one that finds the
-- orders of buyers.
--
-- Two settings of theirs need a reason. `enable_seqscan = off`: a plan that was made when a table was
-- empty must not read it from end to end when it is full. `lock_timeout`: if another session holds the
-- row of a voucher, the call fails and has done nothing, and the connection is free for other vouchers.

-- The time by which sales begin and end: the database's, which all servers share. A function, so that
-- a test can let time pass.
create function sale_time() returns timestamptz
language sql volatile
as 'select clock_timestamp()';

-- Places an order of `voucher` for each of `users`, one or many, with the id and the time at the same
-- place of the other arrays. All of them are one transaction. Every strategy calls it.
--
-- It returns a row for each of `ids` that has no new order, and why: `already_bought` (with the id of
-- the earlier order), `sold_out`, `sale_not_started`, `sale_ended`, `voucher_not_found`, or `id_taken`
-- (the id is another order's). The buyers who come first in the arrays get the last vouchers.
--
-- Why it cannot oversell: a call takes from the stock either by one update that requires `stock >= n`,
-- or, in the exact case, by no more than the stock that it read after it had locked the row. Both keep
-- the row locked until the commit, so every other call for this voucher waits, and then sees what was
-- committed. If the orders cannot be written, what was taken is rolled back with them.
--
-- Why it cannot sell twice: `unique (user_id, voucher_id)`. A second order of a buyer is an error in
-- the usual case, which takes back the whole of it. In the exact case the call looks for earlier orders
-- by a statement that begins after the row is locked: nobody else writes orders of this voucher then,
-- so it misses none.
--
-- Why it sells at no other time: the clock is read after the row is locked. A call that waited for the
-- row past the end of the sale places nothing. So a server that locks the row after the end and finds
-- an order missing knows that the order will never come (src/purchase/owners.rs).
--
-- Why a caller that lost the answer may ask again: the same call, with the same ids and times, places
-- no order twice and does not name the orders that the first call placed. The time tells them from an
-- order of another process that drew the same id for the same user, because Redis had lost the counter.
create function place_orders(
    voucher bigint, ids bigint[], users bigint[], times timestamptz[]
)
returns table (order_id bigint, reason text, earlier_id bigint)
language plpgsql
set enable_seqscan = off
set lock_timeout = '600ms'
as $$
declare
    sale record;
    judged_at timestamptz;
    available integer;
    placed integer;
begin
    -- The usual case: there is enough for all, nobody has bought before, and the sale is on.
    begin
        update seckill_vouchers set stock = stock - cardinality(ids)
        where voucher_id = voucher and stock >= cardinality(ids)
        returning begin_time, end_time into sale;
        if found then
            if sale_time() < sale.begin_time or sale_time() >= sale.end_time then
                raise sqlstate 'SK001'; -- takes the update back
            end if;
            insert into orders (id, user_id, voucher_id, created_at, updated_at)
            select id, user_id, voucher, at, at
            from unnest(ids, users, times) as buyer (id, user_id, at);
            return;
        end if;
    exception
        when unique_violation or sqlstate 'SK001' then null; -- which takes the update back, too
    end;

    -- The exact case: somebody has bought before, there is not enough for all, or the sale is not on.
    -- An error from here on is the caller's. `sale.stock` is null where there is no such voucher.
    select stock, begin_time, end_time into sale from seckill_vouchers where voucher_id = voucher
    for no key update;
    judged_at := sale_time();
    available := case
        when judged_at >= sale.begin_time and judged_at < sale.end_time then sale.stock
        else 0
    end;

    -- The look-ups are scalar subqueries: each goes by an index, whatever the size of the table was
    -- when the plan was made.
    insert into orders (id, user_id, voucher_id, created_at, updated_at)
    select id, user_id, voucher, at, at
    from (
        select distinct on (user_id) *
        from unnest(ids, users, times) with ordinality as buyer (id, user_id, at, place)
        where (select earlier.id from orders earlier
               where earlier.user_id = buyer.user_id and earlier.voucher_id = voucher) is null
          and (select taken.user_id from orders taken
               where taken.id = buyer.id and taken.voucher_id = voucher) is null
        order by user_id, place
    ) first_of_each_user
    order by place
    limit available;
    get diagnostics placed = row_count;

    update seckill_vouchers set stock = stock - placed where voucher_id = voucher and placed > 0;

    return query
    select id,
           case
               when earlier is not null then 'already_bought'
               when sale.stock is null then 'voucher_not_found'
               when judged_at < sale.begin_time then 'sale_not_started'
               when judged_at >= sale.end_time then 'sale_ended'
               when placed_by_this_call = false then 'id_taken'
               else 'sold_out'
           end,
           earlier
    from (
        select buyer.id,
               (select own.id from orders own
                where own.user_id = buyer.user_id and own.voucher_id = voucher) as earlier,
               -- True where this call, or an earlier one with the same ids and times, placed the order;
               -- false where another order has the id; null where no order has it.
               (select (taken.user_id, taken.created_at) = (buyer.user_id, buyer.at)
                from orders taken
                where taken.id = buyer.id and taken.voucher_id = voucher) as placed_by_this_call
        from unnest(ids, users, times) as buyer (id, user_id, at)
    ) buyers
    where placed_by_this_call is not true;
end
$$;

-- The orders that some buyers have of one voucher. A function of one voucher, so that it can run on the
-- database server that has the voucher (`seckill migrate --distribute`).
create function orders_of_buyers(voucher bigint, buyers bigint[])
returns table (buyer_id bigint, order_id bigint)
language plpgsql stable
set enable_seqscan = off
as $$
begin
    -- Buyer by buyer, so that each is found by the unique index, as in `place_orders`.
    return query
    select found.buyer, found.own from (
        select b.buyer,
               (select o.id from orders o where o.voucher_id = voucher and o.user_id = b.buyer) as own
        from unnest(buyers) b (buyer)
    ) found
    where found.own is not null;
end
$$;
