-- Sells to many in one transaction: what `group-commit` calls (src/store/order_batch.rs).
--
-- A function, because each statement in it sees, with a snapshot of its own, what was committed
-- before it began, and no round trip passes while the rows are locked: a process that is stopped,
-- killed or cut off between two statements would keep them from all others until a time-out.
--
-- `sale_ids` names each voucher once, in ascending order, and `wanted` how many are to buy it. All
-- processes lock the rows in this order, so that no two wait for each other.
--
-- The plans are made when the tables may be nearly empty: without `enable_seqscan = off` they would
-- read them from end to end when they are not any more. Nested loops, and no bitmaps, keep the
-- update in the order of `sale_ids`: an update knows no `order by`.
create function seckill_place_orders(
    ids bigint[], user_ids bigint[], voucher_ids bigint[], times timestamptz[],
    sale_ids bigint[], wanted integer[], wait text,
    -- How many were sold; and unless all were, what became of each.
    out sold bigint, out sold_ids bigint[],
    out vouchers bigint[], out stocks integer[],
    out repeats bigint[], out bought bigint[]
)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set lock_timeout = 0
as $$
begin
    perform set_config('lock_timeout', wait, true);

    -- The quick way, for as long as there is enough for all and nobody has bought before: one
    -- update locks the rows and takes the stock. If that was wrong, it is as if it had never been,
    -- the locks included.
    begin
        update seckill_vouchers v
        set stock = v.stock - w.wanted
        from unnest(sale_ids, seckill_place_orders.wanted) as w (voucher_id, wanted)
        where v.voucher_id = w.voucher_id and v.stock >= w.wanted;
        get diagnostics sold = row_count;
        if sold < cardinality(sale_ids) then
            raise sqlstate 'SK001';
        end if;

        -- As long as a row is locked nobody else writes orders of its voucher: who has bought is
        -- exact, and the insert is a plain one. (`on conflict do nothing` would look into both
        -- indexes once more for each order.)
        perform from unnest(user_ids, voucher_ids) as m (user_id, voucher_id)
        join orders o on o.user_id = m.user_id and o.voucher_id = m.voucher_id
        limit 1;
        if found then
            raise sqlstate 'SK001';
        end if;

        insert into orders (id, user_id, voucher_id, created_at, updated_at)
        select id, user_id, voucher_id, at, at
        from unnest(ids, user_ids, voucher_ids, times) as m (id, user_id, voucher_id, at);
        get diagnostics sold = row_count;
        return;
    exception
        when sqlstate 'SK001' then
            null;
    end;

    -- The careful way.
    perform from seckill_vouchers where voucher_id = any (sale_ids)
    order by voucher_id for no key update;

    with member as materialized (
        select m.*, o.id as order_id
        from unnest(ids, user_ids, voucher_ids, times) with ordinality
            as m (id, user_id, voucher_id, at, place)
        left join orders o on o.user_id = m.user_id and o.voucher_id = m.voucher_id
    ), sale as materialized (
        select voucher_id, stock from seckill_vouchers where voucher_id = any (sale_ids)
    ), inserted as (
        insert into orders (id, user_id, voucher_id, created_at, updated_at)
        select id, user_id, voucher_id, at, at
        from (select *, row_number() over (partition by voucher_id order by place) as rank
              from member where order_id is null) m
        join sale using (voucher_id)
        -- The last voucher is sold to whoever came first.
        where rank <= stock
        returning id, voucher_id
    ), taken as (
        update seckill_vouchers v set stock = v.stock - s.sold
        from (select voucher_id, count(*) as sold from inserted group by voucher_id) s
        where v.voucher_id = s.voucher_id
        returning v.voucher_id, v.stock
    )
    select (select count(*) from inserted), (select array_agg(id) from inserted),
           (select array_agg(voucher_id) from sale),
           (select array_agg(coalesce(t.stock, s.stock))
            from sale s left join taken t using (voucher_id)),
           (select array_agg(id) from member where order_id is not null),
           (select array_agg(order_id) from member where order_id is not null)
    into sold, sold_ids, vouchers, stocks, repeats, bought;
end
$$;
