-- `seckill_place_orders` for buyers of whom most likely none has bought before: it does not look, and
-- so takes a fifth less (docs/benchmarks.md). Where one has, or there is not enough for all, it is as
-- if it had never begun, and all are judged in the other way.
--
-- Says the same as that, by the same rules about plans. In between nothing is locked, so it may wait
-- for a row twice.
create function seckill_place_new_orders(
    ids bigint[], user_ids bigint[], voucher_ids bigint[], times timestamptz[],
    sale_ids bigint[], wanted integer[], wait text,
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
begin
    perform set_config('lock_timeout', wait, true);
    begin
        update seckill_vouchers
        set stock = stock - wanted[width_bucket(voucher_id, sale_ids)]
        where voucher_id = any (sale_ids) and stock >= wanted[width_bucket(voucher_id, sale_ids)];
        get diagnostics sold = row_count;
        if sold < cardinality(sale_ids) then
            raise sqlstate 'SK001';
        end if;
        insert into orders (id, user_id, voucher_id, created_at, updated_at)
        select id, user_id, voucher_id, at, at
        from unnest(ids, user_ids, voucher_ids, times) as m (id, user_id, voucher_id, at);
        get diagnostics sold = row_count;
        return;
    exception
        when sqlstate 'SK001' or unique_violation then null;
    end;
    select placed.* into sold, repeats, bought, sold_ids, vouchers, stocks
    from seckill_place_orders(ids, user_ids, voucher_ids, times, sale_ids, wanted, wait) placed;
end
$$;
