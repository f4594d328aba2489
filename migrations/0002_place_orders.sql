-- Sells to many in one transaction: what `group-commit` calls (src/store/order_batch.rs).
--
-- A function, because each statement in it sees, with a snapshot of its own, what was committed
-- before it began, and no round trip passes while the rows are locked: a process that is stopped,
-- killed or cut off between two statements would keep them from all others until a time-out.
-- Processes of all versions share it: what it means never changes under this name.
--
-- `sale_ids` names each voucher once, in ascending order, and `wanted` how many are to buy it.
-- `wait` is how long it waits for a row that somebody has locked, as `lock_timeout`.
--
-- The plans are made when the tables may be nearly empty, and must not read them from end to end
-- when they are not any more: so no sequential scans, and no join with a table but with what
-- `any (sale_ids)` finds of it. No bitmaps either, for an index scan comes to these rows in the
-- order of their ids. All processes lock them in this order, so that no two wait for each other; an
-- update knows no `order by`.
create function seckill_place_orders(
    ids bigint[], user_ids bigint[], voucher_ids bigint[], times timestamptz[],
    sale_ids bigint[], wanted integer[], wait text,
    -- How many were sold; which of `ids` were not, for their buyers had bought, and what; and where
    -- there was not enough for all, which were, and what is left of the vouchers that there are.
    out sold bigint,
    out repeats bigint[], out bought bigint[],
    out sold_ids bigint[], out vouchers bigint[], out stocks integer[]
)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set lock_timeout = 0
as $$
declare
    is_taken boolean;
begin
    perform set_config('lock_timeout', wait, true);

    -- Where there is enough for all, one update locks the rows and takes the stock. Where there is
    -- not, it is as if it had never been, the locks included. (`width_bucket` says which of
    -- `sale_ids` it is.)
    begin
        update seckill_vouchers
        set stock = stock - wanted[width_bucket(voucher_id, sale_ids)]
        where voucher_id = any (sale_ids) and stock >= wanted[width_bucket(voucher_id, sale_ids)];
        get diagnostics sold = row_count;
        is_taken := sold = cardinality(sale_ids);
        if not is_taken then
            raise sqlstate 'SK001';
        end if;
    exception
        when sqlstate 'SK001' then
            perform from seckill_vouchers where voucher_id = any (sale_ids)
            order by voucher_id for no key update;
    end;

    -- As long as a row is locked nobody else writes orders of its voucher: who has bought is exact,
    -- and the insert is a plain one. (`on conflict do nothing` would look into both indexes once
    -- more for each order.)
    select array_agg(id), array_agg(order_id) into repeats, bought
    from (select m.id, (select o.id from orders o
                        where o.user_id = m.user_id and o.voucher_id = m.voucher_id) as order_id
          from unnest(ids, user_ids, voucher_ids) as m (id, user_id, voucher_id)) m
    where order_id is not null;

    if is_taken then
        insert into orders (id, user_id, voucher_id, created_at, updated_at)
        select id, user_id, voucher_id, at, at
        from unnest(ids, user_ids, voucher_ids, times) as m (id, user_id, voucher_id, at)
        where repeats is null or id <> all (repeats);
        get diagnostics sold = row_count;

        if repeats is not null then
            -- Nothing is taken for them.
            update seckill_vouchers v
            set stock = stock + (select count(*)
                                 from unnest(ids, voucher_ids) as m (id, voucher_id)
                                 where m.id = any (repeats) and m.voucher_id = v.voucher_id)
            where voucher_id = any (array(select m.voucher_id
                                          from unnest(ids, voucher_ids) as m (id, voucher_id)
                                          where m.id = any (repeats)));
        end if;
        return;
    end if;

    -- The last are sold to those who came first.
    with sale as materialized (
        select voucher_id, stock from seckill_vouchers where voucher_id = any (sale_ids)
    ), inserted as (
        insert into orders (id, user_id, voucher_id, created_at, updated_at)
        select id, user_id, voucher_id, at, at
        from (select *, row_number() over (partition by voucher_id order by place) as rank
              from unnest(ids, user_ids, voucher_ids, times) with ordinality
                  as m (id, user_id, voucher_id, at, place)
              where repeats is null or id <> all (repeats)) m
        join sale using (voucher_id)
        where rank <= stock
        returning id, voucher_id
    ), taken as (
        update seckill_vouchers v set stock = v.stock - s.sold
        from (select voucher_id, count(*) as sold from inserted group by voucher_id) s
        where v.voucher_id = s.voucher_id and v.voucher_id = any (sale_ids)
        returning v.voucher_id, v.stock
    )
    select (select count(*) from inserted), (select array_agg(id) from inserted),
           (select array_agg(voucher_id order by voucher_id) from sale),
           (select array_agg(coalesce(t.stock, s.stock) order by voucher_id)
            from sale s left join taken t using (voucher_id))
    into sold, sold_ids, vouchers, stocks;
end
$$;
