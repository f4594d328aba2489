-- One function places orders, of one voucher, for one buyer or for many. Every strategy calls it.
-- It takes the place of the functions of migrations 2 and 3.
drop function seckill_place_new_orders;
drop function seckill_place_orders;

-- The data of one voucher belongs together: its key contains the voucher, so that a later change can
-- spread the vouchers over several database servers. The id comes first, so that an id alone still
-- finds its order.
alter table orders drop constraint orders_pkey;
alter table orders add constraint orders_pkey primary key (id, voucher_id);

-- Places an order of `voucher` for each of `users`, with the id and the time at the same place of
-- the other arrays. All of them are one transaction.
--
-- Returns a row for each of `ids` that has no new order, and why: `already_bought` (with the id of
-- the earlier order), `sold_out`, `voucher_not_found`, or `id_taken` (another user's order has it).
-- The buyers who come first in the arrays get the last vouchers.
--
-- The same call again, with the same ids and times, places no order twice, and does not name the
-- orders that the first call placed: a caller that lost the answer may ask so. (An order with the same id and another time is another's: of a
-- process that drew the same number for the same user, because Redis had lost the counter.)
--
-- Why it cannot oversell: the stock is taken by one update that requires `stock >= n`, or under a
-- lock on the stock row, which every other call for this voucher has to wait for.
-- Why it cannot sell twice: `unique (user_id, voucher_id)`; in the second case the look-up under the
-- lock is exact, too, because nobody else writes orders of this voucher meanwhile.
--
-- `enable_seqscan`: a plan that was made when the tables were empty must not read them from end to
-- end when they are full. `lock_timeout`: if somebody else holds the row of this voucher, the call
-- fails and has done nothing, and the connection is free for other vouchers.
create function place_orders(
    voucher bigint, ids bigint[], users bigint[], times timestamptz[]
)
returns table (order_id bigint, reason text, earlier_id bigint)
language plpgsql
set enable_seqscan = off
set lock_timeout = '600ms'
as $$
declare
    available integer;
    placed integer;
begin
    -- The usual case: there is enough for all, and nobody has bought before.
    begin
        update seckill_vouchers set stock = stock - cardinality(ids)
        where voucher_id = voucher and stock >= cardinality(ids);
        if found then
            insert into orders (id, user_id, voucher_id, created_at, updated_at)
            select id, user_id, voucher, at, at
            from unnest(ids, users, times) as buyer (id, user_id, at);
            return;
        end if;
    exception
        when unique_violation then null; -- which takes the update back, too
    end;

    -- The exact case: somebody has bought before, or there is not enough for all. `available` is
    -- null where there is no such voucher. An error from here on is the caller's.
    select stock into available from seckill_vouchers where voucher_id = voucher
    for no key update;

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
    limit coalesce(available, 0); -- `limit null` would be no limit
    get diagnostics placed = row_count;

    update seckill_vouchers set stock = stock - placed where voucher_id = voucher and placed > 0;

    return query
    select id,
           case
               when earlier is not null then 'already_bought'
               when available is null then 'voucher_not_found'
               when id_belongs_to = 'another order' then 'id_taken'
               else 'sold_out'
           end,
           earlier
    from (
        select buyer.id,
               (select own.id from orders own
                where own.user_id = buyer.user_id and own.voucher_id = voucher) as earlier,
               -- Null where no order has the id.
               (select case (taken.user_id, taken.created_at) = (buyer.user_id, buyer.at)
                    when true then 'this order' else 'another order' end
                from orders taken
                where taken.id = buyer.id and taken.voucher_id = voucher) as id_belongs_to
        from unnest(ids, users, times) as buyer (id, user_id, at)
    ) buyers
    where id_belongs_to is distinct from 'this order';
end
$$;
