-- The functions: the clock of sales, what places orders, what takes an order from one state to the next, and
-- what moves money. src/orders/README.md lists for each which rows it locks, and in which order.
--
-- * A step locks the order's row, reads its state, and then changes it: nobody can change the state between
--   the look and the change. Whether the step was done is a value of its own, and never a state.
-- * A step adds one row to `order_steps`, in the same transaction.
-- * Locks are taken in one order: the money, the payment, the voucher's sale, the order, the refund. Whatever changes the stock
--   locks the sale's row before it locks an order: `sell` holds that row while it waits for the unique index, and
--   the index waits for whoever changes an order of the same buyer.
-- * The money is an advisory lock on the gateway's name of it, because there may be no row of it yet: what is said of one
--   transaction is judged one after the other, whichever orders are named with it.
-- * Each function is about one voucher, so that it runs as a whole on the database server that has the
--   voucher (`seckill migrate --distribute`). Citus takes no function that may change its answer in an
--   `update`, so the clock is read into a variable.
--
-- Two settings need a reason. `enable_seqscan = off`: a plan that was made when a table was empty must not
-- read it from end to end when it is full. `lock_timeout`: where another session holds a row, the call fails
-- and has done nothing, and the connection is free for other vouchers. After the purchase it is shorter,
-- because a step may wait twice for the same row: for the session that is before it in the queue, and for the
-- one that holds the row (src/store/time_limits.rs). Once a step has locked a sale it is 50 ms (`lock_sale`). A function
-- that others call sets none, so that the caller's counts.

-- The time by which sales begin and end: the database's, which all servers share. A function, so that
-- a test can let time pass.
create function sale_time() returns timestamptz
language sql volatile
as 'select clock_timestamp()';

-- How long a buyer who has cancelled so many orders of a voucher waits before buying it again: 1 s, 2 s, 4 s and so
-- on, up to an hour.
create function rebuy_pause(cancelled bigint) returns interval
language sql immutable
as 'select make_interval(secs => least(3600, 2 ^ least(cancelled - 1, 12)))';

-- Places an order for each of `ids`, of one voucher or of many. Its voucher, its buyer and its time stand at the same
-- place of the other arrays. All of them are one transaction. Every strategy calls it.
--
-- It waits 50 ms for a row that another session holds. A voucher whose row is held for longer is left out: its orders are
-- `held`, and nothing was done for them. An order that a buyer has already and that is held for longer is as it was
-- committed.
--
-- `only_voucher` is null where the orders may be of several vouchers. `sell` names its one: on Citus each statement
-- must, to run on the worker that has it.
--
-- It returns a row for each of `ids` that has no new order, and why: `already_bought` (with the id of the
-- live order), `sold_out`, `sale_not_started`, `sale_ended`, `sale_paused`, `draw_open`, `line_open`, `voucher_not_found`,
-- `id_taken` (the id is another order's), `too_soon` (the buyer has cancelled an order of the voucher, and may buy
-- again at `until`), or `held`. For each order of a voucher that has a price it returns
-- `ordered`, the amount, and until when to pay. Orders of a free voucher are paid at once and not returned,
-- so that they cost no row of an answer. The buyers who come first in the arrays get the last vouchers.
--
-- Why it cannot oversell: it takes the stock of one voucher where there is enough for all orders, which locks the row; of
-- several vouchers, it locks the rows and then reads their stock. It places no more orders of a voucher than that, and
-- the rows stay locked until the commit: every other call for one of these vouchers waits, and then sees what was
-- committed. Orders and stock are written by one transaction.
--
-- Why it cannot sell twice: `orders_one_live_per_user`. The usual case does not look for live orders, because nobody
-- has one. A second live order of a buyer is an error there, which takes back everything, and the call judges each order
-- by itself. It looks for live orders by a statement that begins after the rows are locked: nobody else writes
-- orders of these vouchers then, so it misses none.
--
-- Why it never stands in the way of another call for good: each locks its vouchers' rows in the order of their ids.
--
-- Why it sells at no other time: the clock is read after the rows are locked. A call that waited for a
-- row past the end of the sale, or for its pause, places nothing. So a server that locks the row then and
-- finds an order missing knows that the order will never come (src/purchase/owners.rs).
--
-- Why a caller that lost the answer may ask again: the same call, with the same ids and times, places
-- no order twice and counts those of the first call as placed, also where they were cancelled meanwhile.
-- When Redis loses the counter of ids, two processes may draw one id for the same user: `created_at` then
-- tells the two orders apart.
--
-- The look-ups are scalar subqueries, or have a `limit`: each goes by an index, whatever the size of the table was
-- when the plan was made. What the locked rows say is kept in arrays, sorted by voucher, where `width_bucket` finds a
-- voucher's place: a join could be planned as a loop over all pairs.
--
-- Each plan is made once for a session. PostgreSQL would make a new one for each call, because a plan for the arrays of
-- that call seems cheaper to it: a call for one order took twice as long.
create function sell_many(
    only_voucher bigint, vouchers bigint[], ids bigint[], users bigint[], times timestamptz[]
)
returns table (
    of_voucher bigint, order_id bigint, reason text, earlier_id bigint, to_pay bigint, until timestamptz
)
language plpgsql
set enable_seqscan = off
set lock_timeout = '50ms'
set plan_cache_mode = force_generic_plan
as $$
declare
    sales bigint[];
    stocks integer[];
    prices bigint[];
    pay_withins integer[];
    latest_begin timestamptz;
    earliest_end timestamptz;
    is_paused boolean;
    judged_at timestamptz;
    -- What became of each order; null where it is to be placed, and where all are.
    answers text[];
    sold bigint[];
    counts bigint[];
    placed integer;
    has_taken boolean;
    leaves_out_held boolean := false;
    judges_each boolean := false;
begin
loop
begin
    sales := null;
    has_taken := false;
    if not judges_each and vouchers[1] = all (vouchers) then
        -- Taking the stock of one voucher locks its row.
        update seckill_vouchers set stock = stock - cardinality(ids)
        where voucher_id = vouchers[1] and stock >= cardinality(ids)
        returning array[voucher_id], array[price], array[pay_within_s], begin_time, end_time,
                  paused or cancelled_at is not null or held_for > 0
        into sales, prices, pay_withins, latest_begin, earliest_end, is_paused;
        has_taken := found;
        judges_each := not found;
    end if;
    if leaves_out_held then
        select array_agg(s.voucher_id), array_agg(stock), array_agg(price), array_agg(pay_within_s),
               max(begin_time), min(end_time), bool_or(paused or cancelled_at is not null or held_for > 0)
        into sales, stocks, prices, pay_withins, latest_begin, earliest_end, is_paused
        from (select * from seckill_vouchers where voucher_id = any (vouchers)
              order by voucher_id for no key update skip locked) s;
    elsif not has_taken then
        select array_agg(s.voucher_id), array_agg(stock), array_agg(price), array_agg(pay_within_s),
               max(begin_time), min(end_time), bool_or(paused or cancelled_at is not null or held_for > 0)
        into sales, stocks, prices, pay_withins, latest_begin, earliest_end, is_paused
        from (select * from seckill_vouchers
              where voucher_id = any (vouchers) and (only_voucher is null or voucher_id = only_voucher)
              order by voucher_id for no key update) s;
    end if;
    sales := coalesce(sales, '{}');
    judged_at := sale_time();

    -- The usual case: the sales are on, and there is enough for all.
    judges_each := judges_each or coalesce(is_paused or judged_at < latest_begin or judged_at >= earliest_end, true);
    if judges_each and has_taken then
        raise sqlstate 'SK001'; -- which gives the stock back
    elsif not judges_each and not has_taken and cardinality(ids) > any (stocks) then
        judges_each := exists (
            select from unnest(vouchers) v group by v having count(*) > stocks[width_bucket(v, sales)]);
    end if;
    answers := '{}';
    if judges_each then
        answers := array(
            with asked as (
                select buyer.*, s.*,
                       (select live.id from orders live
                        where live.voucher_id = buyer.v and (only_voucher is null or live.voucher_id = only_voucher)
                          and live.user_id = buyer.u and live.status in (1, 2, 3, 5)) as earlier,
                       (select max(o.cancelled_at) + rebuy_pause(count(*)) from orders o
                        where o.voucher_id = buyer.v and (only_voucher is null or o.voucher_id = only_voucher)
                          and o.user_id = buyer.u and o.cancelled_by = 1) as again,
                       -- True where an earlier call of the same purchase placed the order; false where another
                       -- purchase has the id; null where nobody has it.
                       (select (same_id.user_id, same_id.created_at) = (buyer.u, buyer.at) from orders same_id
                        where same_id.id = buyer.id and same_id.voucher_id = buyer.v
                          and (only_voucher is null or same_id.voucher_id = only_voucher)) as is_this_purchase
                from unnest(vouchers, ids, users, times) with ordinality as buyer (v, id, u, at, place)
                left join lateral (
                    select voucher_id, stock, begin_time, end_time, cancelled_at, paused, held_for from seckill_vouchers
                    where voucher_id = buyer.v and voucher_id = any (sales)
                      and (only_voucher is null or voucher_id = only_voucher)
                    limit 1
                ) s on true
            ), answered as (
                select asked.*,
                       case
                           when voucher_id is null and leaves_out_held and exists (
                               select from seckill_vouchers s where s.voucher_id = v) then 'held'
                           when is_this_purchase then 'ordered'
                           when earlier is not null then 'already_bought'
                           when voucher_id is null then 'voucher_not_found'
                           -- The clock may go back; a sale that was cancelled is over.
                           when judged_at >= end_time or cancelled_at is not null then 'sale_ended'
                           when judged_at < begin_time then 'sale_not_started'
                           when is_this_purchase = false then 'id_taken'
                           when paused then 'sale_paused'
                           when held_for = 1 then 'draw_open'
                           when held_for = 2 then 'line_open'
                           when again > judged_at and stock > 0 then 'too_soon'
                           when again > judged_at then 'sold_out'
                       end as answer
                from asked
            ), first_of_each_buyer as (
                select answered.*, row_number() over (partition by v, u, answer order by place) = 1 as is_first
                from answered
            )
            select case
                       when answer is not null then answer
                       when not is_first then 'already_bought'
                       when row_number() over (partition by v, answer, is_first order by place) > stock then 'sold_out'
                   end
            from first_of_each_buyer order by place);
    end if;

    insert into orders (id, user_id, voucher_id, status, amount, pay_by, created_at, paid_at, updated_at)
    select id, u, coalesce(only_voucher, v), case when prices[k] = 0 then 2 else 1 end, prices[k],
           case when prices[k] > 0 then judged_at + make_interval(secs => pay_withins[k]) end,
           at, case when prices[k] = 0 then at end, at
    from (
        select buyer.*, width_bucket(v, sales) as k
        from unnest(vouchers, ids, users, times, answers) as buyer (v, id, u, at, answer)
    ) buyer
    where answer is null and sales[k] = v and (judges_each or (
        select max(o.cancelled_at) + rebuy_pause(count(*)) from orders o
        where o.voucher_id = v and (only_voucher is null or o.voucher_id = only_voucher)
          and o.user_id = u and o.cancelled_by = 1
    ) > judged_at is not true);
    get diagnostics placed = row_count;
    if not judges_each and placed < cardinality(ids) then
        raise sqlstate 'SK001'; -- somebody buys again too soon, or there is no such voucher
    end if;

    if not has_taken then
        select array_agg(v order by v), array_agg(count order by v) into sold, counts
        from (select v, count(*) from unnest(vouchers, answers) buyer (v, answer) where answer is null group by v) placed;
        update seckill_vouchers s set stock = s.stock - counts[width_bucket(s.voucher_id, sold)]
        where s.voucher_id = any (sold) and (only_voucher is null or s.voucher_id = only_voucher);
    end if;

    -- Of a usual call for free vouchers there is nothing to tell.
    if judges_each or 0 < any (prices) then
        return query
        select buyer.v, buyer.id,
               -- Of two orders of one buyer that came together, the first was refused.
               case when buyer.answer = 'already_bought' and live.id is null then 'sold_out'
                    else coalesce(buyer.answer, 'ordered') end,
               live.id, own.amount, coalesce(own.pay_by, again.at)
        from unnest(vouchers, ids, users, answers) as buyer (v, id, u, answer)
        left join lateral (
            select o.id from orders o
            where buyer.answer = 'already_bought' and o.voucher_id = buyer.v
              and (only_voucher is null or o.voucher_id = only_voucher)
              and o.user_id = buyer.u and o.status in (1, 2, 3, 5)
            limit 1
        ) live on true
        left join lateral (
            select o.amount, o.pay_by from orders o
            where coalesce(buyer.answer, 'ordered') = 'ordered' and o.id = buyer.id and o.voucher_id = buyer.v
              and (only_voucher is null or o.voucher_id = only_voucher)
            limit 1
        ) own on true
        left join lateral (
            select max(o.cancelled_at) + rebuy_pause(count(*)) as at from orders o
            where buyer.answer = 'too_soon' and o.voucher_id = buyer.v
              and (only_voucher is null or o.voucher_id = only_voucher)
              and o.user_id = buyer.u and o.cancelled_by = 1
        ) again on true
        where coalesce(buyer.answer, 'ordered') <> 'ordered' or own.pay_by is not null;
    end if;
    return;
exception
    -- Each takes back what this attempt did, and lets go of the rows.
    when sqlstate 'SK001' then
        judges_each := true;
    when unique_violation then
        if judges_each then
            raise;
        end if;
        judges_each := true;
    when lock_not_available then
        if sales is null and not leaves_out_held then
            leaves_out_held := true;
            judges_each := true;
        elsif sales is null then
            -- The table itself is locked. `sell` waits for it.
            return query
            select v, id, 'held', null::bigint, null::bigint, null::timestamptz
            from unnest(vouchers, ids) buyer (v, id);
            return;
        elsif judges_each then
            raise;
        else
            -- An order is held, and not the row of a sale.
            judges_each := true;
        end if;
end;
end loop;
end
$$;

-- The same for orders of one voucher, whose row it waits for, as long as a buyer waits: none of them is `held`.
create function sell(voucher bigint, ids bigint[], users bigint[], times timestamptz[])
returns table (
    of_voucher bigint, order_id bigint, reason text, earlier_id bigint, to_pay bigint, until timestamptz
)
language plpgsql
set enable_seqscan = off
set lock_timeout = '600ms'
as $$
begin
    perform from seckill_vouchers where voucher_id = voucher for no key update;
    return query
    select * from sell_many(voucher, array_fill(voucher, array[cardinality(ids)]), ids, users, times);
end
$$;

-- The live orders that some buyers have of one voucher.
create function orders_of_buyers(voucher bigint, buyers bigint[])
returns table (buyer_id bigint, order_id bigint)
language plpgsql stable
set enable_seqscan = off
as $$
begin
    -- Buyer by buyer, so that each is found by the unique index, as in `sell`.
    return query
    select found.buyer, found.own from (
        select b.buyer,
               (select o.id from orders o
                where o.voucher_id = voucher and o.user_id = b.buyer
                  and o.status in (1, 2, 3, 5)) as own
        from unnest(buyers) b (buyer)
    ) found
    where found.own is not null;
end
$$;

-- Locks a voucher's sale for a step. From here on the step waits 50 ms for whatever else it needs: all buyers of the
-- voucher wait behind it, on all servers, and each server may have such a step. The 50 ms count to the end of the
-- function that calls this one, because that function sets `lock_timeout`, too; called by itself, to the end of the
-- transaction.
create function lock_sale(voucher bigint) returns void
language plpgsql
set enable_seqscan = off
as $$
begin
    perform from seckill_vouchers where voucher_id = voucher for no key update;
    perform set_config('lock_timeout', '50ms', true);
end
$$;

-- Adds a row to the log of steps. The caller has locked the order.
create function log_step(
    voucher bigint, own bigint, step text, status_before smallint, status_after smallint,
    actor smallint, actor_id bigint, at timestamptz
)
returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    earlier integer;
begin
    select max(s.number) into earlier
    from order_steps s where s.order_id = own and s.voucher_id = voucher;
    insert into order_steps
        (voucher_id, order_id, number, step, status_before, status_after, actor, actor_id, at)
    values (voucher, own, coalesce(earlier, 0) + 1, step, status_before, status_after,
            actor, actor_id, at);
end
$$;

-- Cancels an unpaid order; `actor` is 1 for the buyer, 2 for an administrator. Its voucher is on sale again,
-- and the gateway is to be told of a payment that is pending. Returns whether it was done, and the state that
-- the order has now. No row: there is no such order.
create function cancel_order(voucher bigint, own bigint, actor smallint, actor_id bigint)
returns table (done boolean, status smallint)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    found_status smallint;
begin
    perform lock_sale(voucher);
    at := sale_time();
    select o.status into found_status from orders o where o.id = own and o.voucher_id = voucher
    for no key update;
    if not found then
        return;
    end if;
    if found_status <> 1 then
        return query select false, found_status;
        return;
    end if;
    update orders set status = 4, cancelled_at = at, cancelled_by = actor, updated_at = at
    where id = own and voucher_id = voucher;
    perform log_step(voucher, own, 'cancelled', 1::smallint, 4::smallint, actor, actor_id, at);
    insert into payment_cancellations (voucher_id, order_id, number, next_attempt_at, created_at)
    select voucher, own, p.number, at, at
    from payments p where p.order_id = own and p.voucher_id = voucher and p.status = 1;
    update seckill_vouchers set stock = stock + 1, revision = revision + 1 where voucher_id = voucher;
    return query select true, 4::smallint;
end
$$;

-- Cancels those of `ids`, orders of `voucher`, whose time to pay is over, and puts their vouchers back on
-- sale. Returns how many. Orders that another session is changing right now are left for the next time.
-- It is written `status < 2`, so that the planner cannot go by the index of all unpaid orders (`status = 1`), which
-- it takes for the cheapest while the table has no statistics, and which a backlog makes long.
create function expire_orders(voucher bigint, ids bigint[]) returns bigint
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    due bigint[];
begin
    perform lock_sale(voucher);
    at := sale_time();
    select array_agg(own.id) into due
    from (
        select o.id from orders o
        where o.id = any (ids) and o.voucher_id = voucher and o.status < 2 and o.pay_by <= at
        for no key update skip locked
    ) own;
    if due is null then
        return 0;
    end if;
    update orders set status = 4, cancelled_at = at, cancelled_by = 3, updated_at = at
    where voucher_id = voucher and id = any (due);
    -- An order that was never paid has taken no step before.
    insert into order_steps
        (voucher_id, order_id, number, step, status_before, status_after, actor, at)
    select voucher, own, 1, 'cancelled', 1, 4, 3, at from unnest(due) own;
    insert into payment_cancellations (voucher_id, order_id, number, next_attempt_at, created_at)
    select voucher, p.order_id, p.number, at, at
    from payments p where p.order_id = any (due) and p.voucher_id = voucher and p.status = 1;
    update seckill_vouchers set stock = stock + cardinality(due), revision = revision + 1
    where voucher_id = voucher;
    return cardinality(due);
end
$$;

-- Enters each of `buyers` into the draw of a voucher, or at the end of its line, as the entry of `ids` at the same place;
-- where that is null, takes the buyer out again. Nobody leaves between the close of the entries and the draw: what is
-- published then stays.
--
-- Returns for each, in their order, `entered` (with the time, how many are ahead in line, and how many were offered an order in
-- the last hour), `entered_before`, `left` or `not_entered`, or why not: `voucher_not_found`,
-- `sale_not_started`, `sale_ended`, `sale_paused`, `already_bought` (with the order), `too_soon` (with the time),
-- `draw_closed` (the entries are, and the draw is to come), or `line_closed` (the voucher has no line, or anybody may buy
-- it).
create function enter_line(voucher bigint, buyers bigint[], ids uuid[])
returns table (outcome text, entry_id uuid, earlier_id bigint, until timestamptz, ahead bigint, offered bigint)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    waiting bigint;
    terms vouchers%rowtype;
    sale seckill_vouchers%rowtype;
    last_place bigint;
    buyer bigint;
    again timestamptz;
begin
    perform lock_sale(voucher);
    at := sale_time();
    select v.* into terms from vouchers v where v.id = voucher;
    select s.* into sale from seckill_vouchers s where s.voucher_id = voucher;
    select max(e.place) into last_place from entries e where e.voucher_id = voucher and e.place > 0;
    select count(*) into waiting from entries e where e.voucher_id = voucher and e.status = 1 and e.place > 0;
    select count(*) into offered from entries e
    where e.voucher_id = voucher and e.status = 2 and e.ended_at > at - interval '1 hour';
    for k in 1 .. cardinality(buyers) loop
        buyer := buyers[k];
        entry_id := (select e.id from entries e where e.voucher_id = voucher and e.user_id = buyer and e.status = 1);
        earlier_id := (select o.id from orders o
                       where o.voucher_id = voucher and o.user_id = buyer and o.status in (1, 2, 3, 5));
        again := (select max(o.cancelled_at) + rebuy_pause(count(*)) from orders o
                  where o.voucher_id = voucher and o.user_id = buyer and o.cancelled_by = 1);
        until := null;
        ahead := null;
        outcome := case
            when sale.voucher_id is null then 'voucher_not_found'
            when earlier_id is not null then 'already_bought'
            when ids[k] is not null and entry_id is not null then 'entered_before'
            when ids[k] is null and entry_id is null then 'not_entered'
            when ids[k] is null and sale.held_for = 1 and at >= terms.draw_time and sale.cancelled_at is null then 'draw_closed'
            when ids[k] is null then 'left'
            when at >= sale.end_time or sale.cancelled_at is not null then 'sale_ended'
            when at < sale.begin_time then 'sale_not_started'
            when sale.paused then 'sale_paused'
            when sale.held_for = 1 and at >= terms.draw_time then 'draw_closed'
            when again > at then 'too_soon'
            when not terms.has_line or (sale.held_for = 0 and sale.stock > 0) then 'line_closed'
            else 'entered'
        end;
        if outcome = 'left' then
            waiting := waiting - 1;
            update entries e set status = 3, ended_at = at where e.voucher_id = voucher and e.id = entry_id;
        elsif outcome = 'too_soon' then
            until := again;
        elsif outcome = 'entered' then
            until := at;
            if sale.held_for <> 1 then
                ahead := waiting;
                waiting := waiting + 1;
                last_place := coalesce(last_place, 0) + 1;
            end if;
            -- A buyer who comes back to a draw has the id of before: nobody may try one id after the other.
            update entries e set status = 1, ended_at = null, entered_at = at
            where e.voucher_id = voucher and e.user_id = buyer and sale.held_for = 1
            returning e.id into entry_id;
            if not found then
                entry_id := ids[k];
                insert into entries (voucher_id, id, user_id, entered_at, place)
                values (voucher, entry_id, buyer, at, last_place);
            end if;
        end if;
        return next;
    end loop;
    perform mark_line(voucher);
end
$$;

-- Whom what there is of a voucher is held for, once its draw is over: those who stand in line, where there are any. The
-- caller has locked the sale.
create function mark_line(voucher bigint) returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    is_line boolean := exists (select from entries e where e.voucher_id = voucher and e.status = 1);
begin
    update seckill_vouchers set held_for = case when is_line then 2 else 0 end, revision = revision + 1
    where voucher_id = voucher and held_for <> 1 and (held_for = 2) <> is_line;
end
$$;

-- Draws the entries of a voucher when it is time, or offers what there is to those who are first in line: an order for each
-- of up to `ids`, by the same `sell` by which everybody buys. Returns `drawn`, `served`, `idle`, or `id_taken` (an id is
-- another order's: it is called again, with others).
--
-- The draw is one transaction: it is made as a whole, and once. Its order is that of the SHA-256 of the ASCII text
-- `voucher:seed:number:entry`.
--
-- Why nobody is passed: whoever enters, leaves or is served locks the sale's row, and from the draw on no other order
-- of the voucher is placed while somebody waits. An offer that cannot be made to the first is made to nobody.
create function serve_line(voucher bigint, ids bigint[]) returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    terms vouchers%rowtype;
    sale seckill_vouchers%rowtype;
    drawn uuid[];
    first_entries uuid[];
    buyers bigint[];
    refused text;
begin
    perform lock_sale(voucher);
    at := sale_time();
    select s.* into sale from seckill_vouchers s where s.voucher_id = voucher;
    select v.* into terms from vouchers v where v.id = voucher;
    if sale.held_for = 0 or sale.paused or sale.cancelled_at is not null or at < sale.begin_time or at >= sale.end_time then
        return 'idle';
    end if;
    if sale.held_for = 1 then
        if at < terms.draw_time or (terms.draw_beacon <> '' and terms.draw_beacon_number is null) then
            return 'idle';
        end if;
        -- First the order: Citus takes no `convert_to` in an update.
        drawn := array(
            select d.id from entries d where d.voucher_id = voucher and d.status = 1
            order by sha256(convert_to(voucher || ':' || terms.draw_seed || ':'
                                       || coalesce(terms.draw_beacon_number, '') || ':' || d.id, 'UTF8')), d.id);
        update entries e set place = d.place
        from unnest(drawn) with ordinality d (id, place)
        where e.voucher_id = voucher and e.id = d.id;
        update vouchers v set drawn_at = at where v.id = voucher;
        update seckill_vouchers set held_for = 2, revision = revision + 1 where voucher_id = voucher;
        perform mark_line(voucher);
        return 'drawn';
    end if;
    select array_agg(e.id order by e.place), array_agg(e.user_id order by e.place) into first_entries, buyers
    from (select * from entries e where e.voucher_id = voucher and e.status = 1 and e.place > 0
          order by e.place limit least(sale.stock, cardinality(ids))) e;
    if first_entries is null then
        return 'idle';
    end if;
    -- For this transaction, which has the row, anybody may buy: nobody else sees it.
    update seckill_vouchers set held_for = 0 where voucher_id = voucher;
    select s.reason into refused
    from sell(voucher, ids[1:cardinality(buyers)], buyers, array_fill(at, array[cardinality(buyers)])) s
    where s.reason <> 'ordered' limit 1;
    if refused = 'id_taken' then
        raise sqlstate 'SK002'; -- which takes back all of it
    elsif refused = 'sale_ended' then
        raise sqlstate 'SK003'; -- meanwhile
    elsif refused is not null then
        raise exception 'the first in line of voucher % cannot have it: %', voucher, refused;
    end if;
    update entries e set status = 2, order_id = offered.own, ended_at = at
    from unnest(first_entries, ids[1:cardinality(buyers)]) offered (id, own)
    where e.voucher_id = voucher and e.id = offered.id;
    update seckill_vouchers set held_for = 2, revision = revision + 1 where voucher_id = voucher;
    perform mark_line(voucher);
    return 'served';
exception
    when sqlstate 'SK002' then
        return 'id_taken';
    when sqlstate 'SK003' then
        return 'idle';
end
$$;

-- Redeems a paid order. Returns as `cancel_order` does.
create function redeem_order(voucher bigint, own bigint, actor_id bigint)
returns table (done boolean, status smallint)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    found_status smallint;
begin
    select o.status into found_status from orders o where o.id = own and o.voucher_id = voucher
    for no key update;
    if not found then
        return;
    end if;
    if found_status <> 2 then
        return query select false, found_status;
        return;
    end if;
    at := sale_time();
    update orders set status = 3, used_at = at, updated_at = at where id = own and voucher_id = voucher;
    perform log_step(voucher, own, 'redeemed', 2::smallint, 3::smallint, 2::smallint, actor_id, at);
    return query select true, 3::smallint;
end
$$;

-- Begins to give the money of a paid order back. An order that cost nothing is refunded at once, and its
-- voucher is on sale again. Returns as `cancel_order` does.
create function refund_order(voucher bigint, own bigint, actor_id bigint)
returns table (done boolean, status smallint)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    -- What an order costs never changes, so it can be read before the order is locked.
    is_free boolean := (select o.amount = 0 from orders o where o.id = own and o.voucher_id = voucher);
    found_status smallint;
begin
    if is_free then
        perform lock_sale(voucher);
    end if;
    select o.status into found_status from orders o where o.id = own and o.voucher_id = voucher
    for no key update;
    if not found then
        return;
    end if;
    if found_status <> 2 then
        return query select false, found_status;
        return;
    end if;
    at := sale_time();
    if is_free then
        update orders set status = 6, refunded_at = at, updated_at = at
        where id = own and voucher_id = voucher;
        perform log_step(voucher, own, 'refunded', 2::smallint, 6::smallint, 2::smallint, actor_id, at);
        update seckill_vouchers set stock = stock + 1, revision = revision + 1
        where voucher_id = voucher;
        return query select true, 6::smallint;
        return;
    end if;
    update orders set status = 5, updated_at = at where id = own and voucher_id = voucher;
    perform log_step(voucher, own, 'refund_begun', 2::smallint, 5::smallint, 2::smallint, actor_id, at);
    insert into refunds (voucher_id, order_id, number, transaction_id, amount, reason,
                         next_attempt_at, created_at, announced)
    select voucher, own, p.number, p.transaction_id, p.paid_amount, 'refund', at, at,
           p.announced
    from payments p where p.order_id = own and p.voucher_id = voucher and p.status = 2;
    if not found then
        raise exception 'order % is paid, and no payment was applied to it', own;
    end if;
    return query select true, 5::smallint;
end
$$;

-- Begins a payment of `buyer`'s order, or finds the one that is pending. Returns the state of the order; where
-- that is 1 (unpaid), also the payment. No row: there is no such order of this buyer. An order whose time is
-- over counts as cancelled (4), also before a server has come to write it.
--
-- `ask_gateway`: the gateway has not said yet where to pay, and this caller is to ask it, within `ask_within_s`.
-- Until then every other caller gets false and `wait_ms`, so that one message of a payment is under way at a time.
create function open_payment(voucher bigint, own bigint, buyer bigint, ask_within_s double precision)
returns table (
    order_status smallint, payment_number integer, to_pay bigint, until timestamptz, url text,
    ask_gateway boolean, attempt integer, wait_ms bigint
)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    claimed_until timestamptz;
    pending payments%rowtype;
    bought orders%rowtype;
begin
    select p.* into pending
    from payments p where p.order_id = own and p.voucher_id = voucher and p.status = 1
    for no key update;
    select o.* into bought
    from orders o where o.id = own and o.voucher_id = voucher and o.user_id = buyer
    for no key update;
    if not found then
        return;
    end if;
    at := sale_time();
    claimed_until := at + make_interval(secs => ask_within_s);
    if bought.status <> 1 or bought.pay_by <= at then
        return query select
            case bought.status when 1 then 4::smallint else bought.status end,
            null::integer, null::bigint, bought.pay_by, null::text, false, 0, 0::bigint;
        return;
    end if;
    ask_gateway := false;
    if pending.number is null then
        -- With the order locked nobody else opens a payment of it; one may have come before the lock.
        select p.* into pending
        from payments p where p.order_id = own and p.voucher_id = voucher and p.status = 1;
        if not found then
            insert into payments
                (voucher_id, order_id, number, amount, attempts, next_attempt_at, created_at)
            select voucher, own, coalesce(max(p.number), 0) + 1, bought.amount, 1, claimed_until, at
            from payments p where p.order_id = own and p.voucher_id = voucher
            returning * into pending;
            ask_gateway := true;
        end if;
    elsif pending.pay_url is null and (pending.next_attempt_at <= at or pending.next_attempt_at > at + interval '1 minute') then
        -- No claim and no pause is that long: one that ends later was made before the clock went back.
        update payments set attempts = attempts + 1, next_attempt_at = claimed_until
        where order_id = own and number = pending.number and voucher_id = voucher
        returning * into pending;
        ask_gateway := true;
    end if;
    return query select
        bought.status, pending.number, pending.amount, bought.pay_by, pending.pay_url,
        ask_gateway, pending.attempts,
        ceil(1000 * extract(epoch from greatest(pending.next_attempt_at - at, interval '0')))::bigint;
end
$$;

-- The gateway took `paid` in the transaction of this name: the usual case, in which the order is unpaid and
-- the amount is right. Returns `applied` or `unknown` (there is no such payment). Null: the case is another one and
-- nothing was changed; `judge_payment` decides it.
--
-- Two functions, because the other cases may change the stock. They have to lock the sale's row before the
-- order, and a payment in the usual case must not wait for the hot row.
create function apply_payment(
    voucher bigint, own bigint, payment_number integer, transaction text, paid bigint
)
returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    payment payments%rowtype;
    found_status smallint;
begin
    -- Of two notifications at once, the second waits here and finds what the first has written.
    perform pg_advisory_xact_lock(hashtextextended(transaction, voucher));
    select p.* into payment
    from payments p
    where p.order_id = own and p.number = payment_number and p.voucher_id = voucher
    for no key update;
    if not found then
        return 'unknown';
    end if;
    if paid <> payment.amount or payment.status in (2, 4)
       or exists (select from payments p
                  where p.transaction_id = transaction and p.voucher_id = voucher) then
        return null;
    end if;
    select o.status into found_status from orders o where o.id = own and o.voucher_id = voucher
    for no key update;
    if found_status is distinct from 1
       or exists (select from early_returns r
                  where r.transaction_id = transaction and r.voucher_id = voucher) then
        return null;
    end if;
    at := sale_time();
    update orders set status = 2, paid_at = at, updated_at = at where id = own and voucher_id = voucher;
    perform log_step(voucher, own, 'paid', 1::smallint, 2::smallint, 4::smallint, null, at);
    update payments set status = 2, transaction_id = transaction, paid_amount = paid, confirmed_at = at
    where order_id = own and number = payment_number and voucher_id = voucher;
    perform cancel_other_payments(voucher, own, at);
    return 'applied';
end
$$;

-- The same in every other case: money that is late, wrong, a second time, or given back already. Returns as
-- `apply_payment` does, or `repeated` (the order has this money already), or `unknown` also where another order of the
-- voucher has it, or `revived` (applied to an order that time had cancelled), or why the money goes back:
-- `wrong_amount`, `order_cancelled`, `order_paid`, `order_missing`. Where the gateway said before that it gave the
-- money back, it returns what `record_return` does.
--
-- The one decision about money that comes too late: an order that *time* has cancelled is revived if one
-- voucher is left and its buyer has no other live order of it. The buyer paid for what is still there, so
-- no promise is broken. An order that a person has cancelled stays so, and the money goes back: a person
-- said so, and may have been told so. Whether the sale is over or paused does not matter: the buyer bought
-- in time. No order of a sale that was cancelled as a whole is revived.
create function judge_payment(
    voucher bigint, own bigint, payment_number integer, transaction text, paid bigint
)
returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    payment payments%rowtype;
    sale seckill_vouchers%rowtype;
    bought orders%rowtype;
    known_of bigint;
    outcome text;
    kept_as integer;
    kind smallint;
begin
    perform pg_advisory_xact_lock(hashtextextended(transaction, voucher));
    select p.* into payment
    from payments p
    where p.order_id = own and p.number = payment_number and p.voucher_id = voucher
    for no key update;
    if not found then
        return 'unknown';
    end if;
    -- The order's own money may be kept as another of its payments. Money that paid for another order, whoever looks
    -- after the shop has to see.
    select p.order_id into known_of from payments p
    where p.transaction_id = transaction and p.voucher_id = voucher;
    if found then
        return case known_of when own then 'repeated' else 'unknown' end;
    end if;
    perform lock_sale(voucher);
    select s.* into sale from seckill_vouchers s where s.voucher_id = voucher;
    select o.* into bought from orders o where o.id = own and o.voucher_id = voucher for no key update;
    at := sale_time();
    outcome := case
        when bought.id is null then 'order_missing'
        when paid <> payment.amount then 'wrong_amount'
        when bought.status = 1 then 'applied'
        when bought.status = 4 and bought.cancelled_by = 3
             and sale.stock > 0 and sale.cancelled_at is null and sale.held_for = 0
             and not exists (select from orders live
                             where live.voucher_id = voucher and live.user_id = bought.user_id
                               and live.status in (1, 2, 3, 5)) then 'revived'
        when bought.status = 4 then 'order_cancelled'
        else 'order_paid'
    end;
    if outcome in ('applied', 'revived') then
        update orders set status = 2, paid_at = at, updated_at = at, cancelled_at = null, cancelled_by = null
        where id = own and voucher_id = voucher;
        perform log_step(voucher, own, case outcome when 'applied' then 'paid' else 'revived' end,
                         bought.status, 2::smallint, 4::smallint, null, at);
    end if;
    if outcome = 'revived' then
        update seckill_vouchers set stock = stock - 1, revision = revision + 1 where voucher_id = voucher;
    end if;
    kept_as := write_payment(voucher, own, payment_number, payment.amount, payment.status in (2, 4),
                             transaction, paid, outcome, at);
    -- The gateway took the money: it is not told any more that the payment is not wanted.
    update payment_cancellations set next_attempt_at = null
    where order_id = own and number = payment_number and voucher_id = voucher;
    if outcome in ('applied', 'revived') then
        perform cancel_other_payments(voucher, own, at);
    end if;
    for kind in select r.done_by from early_returns r
                where r.transaction_id = transaction and r.voucher_id = voucher and r.amount = paid
                order by r.told_at, r.done_by
    loop
        outcome := record_return(voucher, own, kept_as, kind, at);
    end loop;
    return outcome;
end
$$;

-- An order is paid: the gateway is to be told that its other payments are not wanted. The caller has locked the order.
create function cancel_other_payments(voucher bigint, own bigint, at timestamptz) returns void
language plpgsql
set enable_seqscan = off
as $$
begin
    insert into payment_cancellations (voucher_id, order_id, number, next_attempt_at, created_at)
    select voucher, own, p.number, at, at
    from payments p where p.order_id = own and p.voucher_id = voucher and p.status = 1
    on conflict do nothing;
end
$$;

-- Writes money that `judge_payment` has judged: into the payment that was asked for, or, where that `has_money`
-- already, as a payment of its own (the gateway took money twice for one payment). Money that was not applied
-- to its order gets its refund. Returns the number of the payment. The caller has locked the order, so nobody
-- takes the next number.
create function write_payment(
    voucher bigint, own bigint, payment_number integer, amount_asked bigint, has_money boolean,
    transaction text, paid bigint, outcome text, at timestamptz
)
returns integer
language plpgsql
set enable_seqscan = off
as $$
declare
    is_applied boolean := outcome in ('applied', 'revived');
    new_status smallint := case when is_applied then 2 else 4 end;
    why text := case when not is_applied then outcome end;
    kept_as integer := payment_number;
begin
    if has_money then
        insert into payments (voucher_id, order_id, number, amount, status, transaction_id,
                              paid_amount, confirmed_at, reason, created_at, announced)
        select voucher, own, max(p.number) + 1, amount_asked, new_status, transaction, paid, at, why, at,
               payment_number
        from payments p where p.order_id = own and p.voucher_id = voucher
        returning payments.number into kept_as;
    else
        update payments
        set status = new_status, transaction_id = transaction, paid_amount = paid, confirmed_at = at,
            reason = why
        where order_id = own and number = payment_number and voucher_id = voucher;
    end if;
    if not is_applied then
        insert into refunds (voucher_id, order_id, number, transaction_id, amount, reason,
                             next_attempt_at, created_at, announced)
        values (voucher, own, kept_as, transaction, paid, why, at, at, case when has_money then payment_number end);
    end if;
    return kept_as;
end
$$;

-- The gateway says that a payment failed: it took nothing. Returns `failed`, `unknown` or `repeated`.
create function fail_payment(voucher bigint, own bigint, payment_number integer) returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    found_status smallint;
begin
    select p.status into found_status
    from payments p where p.order_id = own and p.number = payment_number and p.voucher_id = voucher
    for no key update;
    if not found then
        return 'unknown';
    end if;
    if found_status <> 1 then
        return 'repeated';
    end if;
    update payments set status = 3
    where order_id = own and number = payment_number and voucher_id = voucher;
    return 'failed';
end
$$;

-- The gateway gave money back without being asked: `kind` is 2 for a refund of its own, 3 for a charge-back.
-- Returns `unknown` (there is no such payment), `partial` (it is not the whole amount; nothing was changed),
-- `kept` (the money is not known yet: the notice waits for it), or what `record_return` returns.
create function return_payment(
    voucher bigint, own bigint, payment_number integer, transaction text, returned bigint, kind smallint
)
returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    amount_asked bigint;
    money record;
begin
    perform pg_advisory_xact_lock(hashtextextended(transaction, voucher));
    select p.amount into amount_asked
    from payments p
    where p.order_id = own and p.number = payment_number and p.voucher_id = voucher
    for no key update;
    if not found then
        return 'unknown';
    end if;
    perform lock_sale(voucher);
    perform from orders o where o.id = own and o.voucher_id = voucher for no key update;
    at := sale_time();
    -- The transaction is the name of the money: its order counts, also where the notice names another one.
    select p.order_id, p.number, p.paid_amount into money
    from payments p
    where p.transaction_id = transaction and p.voucher_id = voucher;
    -- Of money that is not known yet, less than was asked for is taken for a part; more is another amount, which the
    -- gateway took by mistake.
    if returned <> money.paid_amount or money.number is null and returned < amount_asked then
        return 'partial';
    end if;
    if money.number is null then
        insert into early_returns (voucher_id, order_id, transaction_id, amount, done_by, told_at)
        values (voucher, own, transaction, returned, kind, at)
        on conflict do nothing;
        return case when found then 'kept' else 'repeated' end;
    end if;
    if money.order_id <> own then
        perform from orders o where o.id = money.order_id and o.voucher_id = voucher for no key update;
    end if;
    return record_return(voucher, money.order_id, money.number, kind, at);
end
$$;

-- Writes that the gateway gave the money of a payment back by itself; no message of ours is sent any more.
-- Returns `returned`, `repeated`, or `returned_twice`: the money had gone back before, another way. The caller
-- has locked the sale and the order.
create function record_return(
    voucher bigint, own bigint, payment_number integer, kind smallint, at timestamptz
)
returns text
language plpgsql
set enable_seqscan = off
as $$
declare
    refund refunds%rowtype;
begin
    select r.* into refund
    from refunds r
    where r.order_id = own and r.number = payment_number and r.voucher_id = voucher
    for no key update;
    if refund.status = 2 then
        -- A gateway that was asked for a refund may also tell of it.
        if refund.done_by = kind or (refund.done_by = 1 and kind = 2)
           or refund.given_back_twice_at is not null then
            return 'repeated';
        end if;
        update refunds set given_back_twice_at = at
        where order_id = own and number = payment_number and voucher_id = voucher;
        return 'returned_twice';
    end if;
    if refund.status = 1 then
        update refunds set status = 2, done_at = at, done_by = kind, last_error = null
        where order_id = own and number = payment_number and voucher_id = voucher;
    else
        insert into refunds (voucher_id, order_id, number, transaction_id, amount, reason, status,
                             next_attempt_at, created_at, done_at, done_by, announced)
        select voucher, own, p.number, p.transaction_id, p.paid_amount,
               case kind when 2 then 'refunded_by_gateway' else 'charged_back' end, 2, at, at, at, kind,
               p.announced
        from payments p
        where p.order_id = own and p.number = payment_number and p.voucher_id = voucher;
    end if;
    if exists (select from payments p
               where p.order_id = own and p.number = payment_number and p.voucher_id = voucher
                 and p.status = 2) then
        perform mark_order_refunded(voucher, own, 'refunded', 4::smallint, null, at);
    end if;
    return 'returned';
end
$$;

-- The money of the order's payment is back with its buyer: the order is refunded, and its voucher is on sale
-- again. An order that is used stays used, for good: it is marked as charged back. The caller has locked the
-- sale and the order.
create function mark_order_refunded(
    voucher bigint, own bigint, step text, actor smallint, actor_id bigint, at timestamptz
)
returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    found_status smallint;
begin
    select o.status into found_status from orders o where o.id = own and o.voucher_id = voucher;
    if found_status = 3 then
        update orders set charged_back_at = at, updated_at = at where id = own and voucher_id = voucher;
        perform log_step(voucher, own, 'charged_back', 3::smallint, 3::smallint, actor, actor_id, at);
    elsif found_status in (2, 5) then
        update orders set status = 6, refunded_at = at, updated_at = at
        where id = own and voucher_id = voucher;
        perform log_step(voucher, own, step, found_status, 6::smallint, actor, actor_id, at);
        update seckill_vouchers set stock = stock + 1, revision = revision + 1 where voucher_id = voucher;
    else
        raise exception 'order % has an applied payment, and its status is %', own, found_status;
    end if;
end
$$;

-- The gateway, which we asked, has given the money of a payment back. Returns `done`, `repeated`, or
-- `returned_twice`: the money went back another way while the gateway was asked.
create function finish_refund(voucher bigint, own bigint, payment_number integer) returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    refund refunds%rowtype;
begin
    perform lock_sale(voucher);
    perform from orders o where o.id = own and o.voucher_id = voucher for no key update;
    at := sale_time();
    select r.* into refund
    from refunds r
    where r.order_id = own and r.number = payment_number and r.voucher_id = voucher
    for no key update;
    if refund.status = 2 and refund.done_by in (3, 4) and refund.given_back_twice_at is null then
        update refunds set given_back_twice_at = at
        where order_id = own and number = payment_number and voucher_id = voucher;
        return 'returned_twice';
    end if;
    if refund.status is distinct from 1 then
        return 'repeated';
    end if;
    update refunds set status = 2, done_at = at, done_by = 1, last_error = null
    where order_id = own and number = payment_number and voucher_id = voucher;
    if exists (select from payments p
               where p.order_id = own and p.number = payment_number and p.voucher_id = voucher
                 and p.status = 2) then
        perform mark_order_refunded(voucher, own, 'refunded', 4::smallint, null, at);
    end if;
    return 'done';
end
$$;

-- An administrator has given the money of an order that is being refunded back outside the gateway. Returns as
-- `cancel_order` does.
create function settle_refund(voucher bigint, own bigint, actor_id bigint)
returns table (done boolean, status smallint)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    found_status smallint;
begin
    perform lock_sale(voucher);
    select o.status into found_status from orders o where o.id = own and o.voucher_id = voucher
    for no key update;
    if not found then
        return;
    end if;
    if found_status <> 5 then
        return query select false, found_status;
        return;
    end if;
    at := sale_time();
    update refunds set status = 2, done_at = at, done_by = 4
    where order_id = own and voucher_id = voucher and refunds.status = 1
      and number = (select p.number from payments p
                    where p.order_id = own and p.voucher_id = voucher and p.status = 2);
    if not found then
        raise exception 'order % is being refunded, and no refund waits', own;
    end if;
    perform mark_order_refunded(voucher, own, 'settled_outside', 2::smallint, actor_id, at);
    return query select true, 6::smallint;
end
$$;
