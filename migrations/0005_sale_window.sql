-- The database judges the sale's window by its own clock, which all servers share.

-- The time by which sales begin and end. A function, so that a test can let time pass.
create function sale_time() returns timestamptz
language sql volatile
as 'select clock_timestamp()';

-- Finds the buyers of one voucher: a server reads them when the sale is over. Orders are written in the
-- order of time, so those of a sale lie together; a block range index knows where, and costs an order
-- next to nothing.
create index orders_by_voucher on orders using brin (voucher_id)
with (pages_per_range = 16, autosummarize = on);

-- The order that each buyer has of the voucher at the same place, or null.
--
-- `enable_seqscan`: as in `place_orders`, a plan that was made when the table was empty must not read it
-- from end to end when it is full.
create function owned_orders(users bigint[], vouchers bigint[]) returns setof bigint
language sql stable
set enable_seqscan = off
as $$
    select (select o.id from orders o
            where o.user_id = buyer.user_id and o.voucher_id = buyer.voucher_id)
    from unnest(users, vouchers) with ordinality as buyer (user_id, voucher_id, place)
    order by place
$$;

-- Places an order of `voucher` for each of `users`, with the id and the time at the same place of the
-- other arrays. All of them are one transaction. Takes the place of the function of migration 4.
--
-- Returns a row for each of `ids` that has no new order, and why: `already_bought` (with the id of the
-- earlier order), `sold_out`, `sale_not_started`, `sale_ended`, `voucher_not_found`, or `id_taken` (the id
-- is another order's). The buyers who come first in the arrays get the last vouchers.
--
-- The same call again, with the same ids and times, places no order twice, and does not name the orders
-- that the first call placed: so a caller that lost the answer asks again. The time tells them from an
-- order of another process that drew the same id for the same user, because Redis had lost the counter.
--
-- Why it cannot oversell: the stock is taken by one update that requires `stock >= n`, or under a lock on
-- the stock row, which every other call for this voucher has to wait for.
-- Why it cannot sell twice: `unique (user_id, voucher_id)`; in the exact case the look-up under the lock
-- is exact, too, because nobody else writes orders of this voucher meanwhile.
-- Why it sells at no other time: the time is read after the stock row is locked. A call that waited for
-- the row past the end of the sale places nothing, so a server that locks the row after the end and finds
-- an order missing knows that the order will never come (src/seckill/owners.rs).
--
-- `enable_seqscan`: a plan that was made when the tables were empty must not read them from end to end
-- when they are full; for the same reason the look-ups below are scalar subqueries, each by an index.
-- `lock_timeout`: if somebody else holds the row of this voucher, the call fails and has done nothing, and
-- the connection is free for other vouchers.
create or replace function place_orders(
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
