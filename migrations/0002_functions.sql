-- The functions: the clock of sales, what places orders, what takes an order from one state to the next, and
-- what moves money. src/orders/README.md lists for each which rows it locks, and in which order.
--
-- * A step locks the order's row, reads its state, and then changes it: nobody can change the state between
--   the look and the change. Whether the step was done is a value of its own, and never a state.
-- * A step adds one row to `order_steps`, in the same transaction.
-- * A refusal is a word, and the word is the API's `code` (src/model/refusal.rs).
-- * Locks are taken in one order: the money, the payment, the voucher's sale, the order, the refund, a message. Whatever changes the stock
--   locks the sale's row before it locks an order: a purchase holds that row while it waits for the unique index, and
--   the index waits for whoever changes an order of the same buyer.
-- * The clock is read after the rows are locked.
-- * The money is an advisory lock on the gateway's name of it, because there may be no row of it yet: what is said of one
--   transaction is judged one after the other, whichever orders are named with it.
-- * Each function but `sell_many` is about one voucher, so that it runs as a whole on the database server that has the
--   voucher (`seckill migrate --distribute`). Citus takes no function that may change its answer in an
--   `update`, so the clock is read into a variable.
--
-- Settings stand on the functions that the server calls, not on those that other functions call. Three need a reason.
-- `enable_seqscan = off`: a plan that was made when a table was empty must not read it from end to end when it is full.
-- `plan_cache_mode`: PostgreSQL would make a new plan for each call that sells, because one for the arrays of
-- that call seems cheaper to it: a call for one order took twice as long. `lock_timeout`: if another session holds a row, the
-- call fails and has done nothing, and the connection is free for other vouchers. After the purchase it is shorter,
-- because a step may wait twice for the same row: for the session that is before it in the queue, and for the
-- one that holds the row (src/store/time_limits.rs). Once a step has locked a sale it is 50 ms (`lock_sale`).

-- The names of the numbers in the tables. The planner puts the numbers in their place.
create function order_unpaid() returns smallint language sql immutable as 'select 1::smallint';
create function order_paid() returns smallint language sql immutable as 'select 2::smallint';
create function order_used() returns smallint language sql immutable as 'select 3::smallint';
create function order_cancelled() returns smallint language sql immutable as 'select 4::smallint';
create function order_refunding() returns smallint language sql immutable as 'select 5::smallint';
create function order_refunded() returns smallint language sql immutable as 'select 6::smallint';
create function order_refunding_again() returns smallint language sql immutable as 'select 7::smallint';
-- A buyer has at most one live order of a voucher. As the index `orders_one_live_per_user` says it.
create function is_live(order_status smallint) returns boolean language sql immutable as 'select order_status in (1, 2, 3, 5)';

create function payment_pending() returns smallint language sql immutable as 'select 1::smallint';
create function payment_applied() returns smallint language sql immutable as 'select 2::smallint';
create function payment_failed() returns smallint language sql immutable as 'select 3::smallint';
create function payment_given_back() returns smallint language sql immutable as 'select 4::smallint';

create function refund_waiting() returns smallint language sql immutable as 'select 1::smallint';
create function refund_done() returns smallint language sql immutable as 'select 2::smallint';
-- How money went back.
create function as_we_asked() returns smallint language sql immutable as 'select 1::smallint';
create function by_the_gateway_itself() returns smallint language sql immutable as 'select 2::smallint';
create function by_charge_back() returns smallint language sql immutable as 'select 3::smallint';
create function outside_the_gateway() returns smallint language sql immutable as 'select 4::smallint';

-- Where messages go.
create function to_phones() returns smallint language sql immutable as 'select 2::smallint';
create function to_gateway() returns smallint language sql immutable as 'select 1::smallint';

-- Who takes a step.
create function actor_buyer() returns smallint language sql immutable as 'select 1::smallint';
create function actor_administrator() returns smallint language sql immutable as 'select 2::smallint';
create function actor_time() returns smallint language sql immutable as 'select 3::smallint';
create function actor_gateway() returns smallint language sql immutable as 'select 4::smallint';
-- Buyers give an order up by cancelling it, or by not paying in time. As the index `orders_given_up` says it.
create function is_given_up(cancelled_by smallint) returns boolean language sql immutable as 'select cancelled_by in (1, 3)';

-- Whom the stock of a voucher is held for.
create function for_anybody() returns smallint language sql immutable as 'select 0::smallint';
create function for_the_draw() returns smallint language sql immutable as 'select 1::smallint';
create function for_the_line() returns smallint language sql immutable as 'select 2::smallint';

create function entry_waiting() returns smallint language sql immutable as 'select 1::smallint';
create function entry_offered() returns smallint language sql immutable as 'select 2::smallint';
create function entry_gone() returns smallint language sql immutable as 'select 3::smallint';

-- Which step leads an order from which state to which, and what it does to the stock of the voucher. `write_step` goes by
-- it, and nothing else changes the state of an order but `expire_orders`, which does it for many.
create function order_transitions()
returns table (step text, leaves smallint, enters smallint, stock_change integer)
language sql immutable
as $$
    values
        ('paid',            order_unpaid(),    order_paid(),       0),
        ('cancelled',       order_unpaid(),    order_cancelled(),  1),
        ('revived',         order_cancelled(), order_paid(),      -1),
        ('redeemed',        order_paid(),      order_used(),       0),
        ('refund_begun',    order_paid(),      order_refunding(),  0),
        ('refunded',        order_paid(),      order_refunded(),   1),
        ('refunded',        order_refunding(), order_refunded(),   1),
        ('settled_outside', order_refunding(), order_refunded(),   1),
        ('charged_back',    order_used(),      order_used(),       0),
        -- The voucher is on sale again since the order was refunded.
        ('refund_failed',   order_refunded(),  order_refunding_again(), 0),
        ('refunded',        order_refunding_again(), order_refunded(),  0),
        ('settled_outside', order_refunding_again(), order_refunded(),  0),
        ('charge_back_won', order_used(),      order_used(),       0),
        ('charge_back_won', order_refunded(),  order_refunded(),   0)
$$;

-- The time by which sales begin and end: the database's, which all servers share. A function, so that
-- a test can let time pass.
create function sale_time() returns timestamptz
language sql volatile
as 'select clock_timestamp()';

-- How long a buyer who has given up so many orders of a voucher waits before buying it again: 1 s, 2 s, 4 s and so
-- on, up to an hour.
create function rebuy_pause(given_up bigint) returns interval
language sql immutable
as 'select make_interval(secs => least(3600, 2 ^ least(given_up - 1, 12)))';

-- When the pause of a buyer ends who has done so so many `times`, the last time at `last`. Null: there is no pause. A last time
-- that is still to come was written before the clock went back: its pause would last as long as the jump.
create function paused_until(last timestamptz, times bigint, at timestamptz) returns timestamptz
language sql stable
as 'select case when last <= at then last + rebuy_pause(times) end';

-- Whether an offer may be made at this time: `hours` are `vouchers.offer_between`. They may go past midnight.
create function is_offer_time(hours text, at timestamptz) returns boolean
language sql immutable
as $$
    select hours = '' or case
        when begins <= ends then clock >= begins and clock < ends
        else clock >= begins or clock < ends
    end
    from (select left(said, 5)::time as begins, substr(said, 7, 5)::time as ends,
                 (at at time zone 'UTC' + substr(said, 12)::interval)::time as clock
          from nullif(hours, '') said) local
$$;

-- Purchases: `sell` and `sell_many` are what the server calls, and `place_orders` is what both do for one voucher.
--
-- Each takes `ids`, the ids of orders to place; the buyer and the time of each (and its voucher) stand at the same
-- place of the other arrays. All of it is one transaction. The buyers who come first in the arrays get the last vouchers.
--
-- Each returns a row for each of `ids` that has no new order, and why: the word of a refusal, with the id of the live order
-- (`already_bought`), when the sale begins (`sale_not_started`), or when the buyer may buy again (`too_many_requests`, after
-- the buyer gave an order up). Words that are no answer to a buyer: `id_taken` (another order has the id), and, of
-- `sell_many` alone, `held`. For each order that is to be paid for it returns `ordered`, the amount, and until when to
-- pay. Orders of a free voucher are paid at once and not returned, so that they cost no row of an answer.
--
-- Why it cannot oversell: it takes the stock of one voucher if there is enough for all orders, which locks the row; of
-- several vouchers, it locks the rows and then reads their stock. It places no more orders of a voucher than that, and
-- the rows stay locked until the commit: every other call for one of these vouchers waits, and then sees what was
-- committed. Orders and stock are written by one transaction.
--
-- Why it cannot sell twice: `orders_one_live_per_user`. The usual case does not look for live orders, because nobody
-- has one. A second live order of a buyer is an error there, which takes the insert back; the stock that was taken goes back
-- under the same lock, and the call judges each order by itself. It looks for live orders by a statement that begins after
-- the row is locked: nobody else writes orders of the voucher then, so it misses none. (`on conflict do nothing` would do
-- without the error, and cost all purchases a quarter more of the processor.)
--
-- Why it never stands in the way of another call for good: each locks its vouchers' rows in the order of their ids.
--
-- Why it sells at no other time: the clock is read after the rows are locked. A call that waited for a
-- row past the end of the sale, or for its pause, places nothing. So a server that locks the row then and
-- finds an order missing knows that the order will never come (src/purchase/owners.rs).
--
-- Why a caller that lost the answer may ask again: the same call, with the same ids and times, places
-- no order twice and counts those of the first call as placed, also if they were cancelled meanwhile.
-- When Redis loses the counter of ids, two processes may draw one id for the same user: `created_at` then
-- tells the two orders apart.
--
-- The look-ups are scalar subqueries, or have a `limit`: each goes by an index, whatever the size of the table was
-- when the plan was made.
--
-- `at_once` is false if it is known that not all orders can be placed.
create function place_orders(voucher bigint, ids bigint[], users bigint[], times timestamptz[], at_once boolean)
returns table (
    of_voucher bigint, order_id bigint, reason text, earlier_id bigint, to_pay bigint, until timestamptz
)
language plpgsql
as $$
declare
    at timestamptz;
    pay_by timestamptz;
    sale seckill_vouchers%rowtype;
    taken integer := 0;
    placed integer := 0;
    answers text[];
begin
    -- The usual case: there is enough for all.
    update seckill_vouchers set stock = stock - cardinality(ids)
    where voucher_id = voucher and stock >= cardinality(ids)
      and at_once
    returning * into sale;
    if found then
        taken := cardinality(ids);
    else
        select s.* into sale from seckill_vouchers s where s.voucher_id = voucher for no key update;
    end if;
    at := sale_time();
    pay_by := at + make_interval(secs => sale.pay_within_s);
    if taken > 0 and at >= sale.begin_time and at < sale.end_time
       and not sale.paused and sale.cancelled_at is null and sale.held_for = for_anybody() then
        begin
            placed := insert_orders(voucher, sale.price, pay_by, ids, users, times, null, at);
        exception when unique_violation or lock_not_available then
            placed := 0; -- A buyer has an order already, or another session holds it.
        end;
    end if;
    if placed = taken and taken > 0 then
        return query select voucher, own, 'ordered', null::bigint, sale.price, pay_by from unnest(ids) own where sale.price > 0;
        return;
    end if;

    -- Each order by itself. What was taken for orders that were not placed goes back first.
    update seckill_vouchers set stock = stock + taken - placed where voucher_id = voucher and taken > placed;
    answers := judge_orders(voucher, ids, users, times, at);
    placed := insert_orders(voucher, sale.price, pay_by, ids, users, times, answers, at);
    update seckill_vouchers set stock = stock - placed where voucher_id = voucher and placed > 0;
    return query select voucher, told.* from tell_orders(voucher, ids, users, answers, at) told;
end
$$;

-- Inserts the orders that have no answer yet, except those of buyers who gave one up a moment ago, and returns how many.
create function insert_orders(
    voucher bigint, price bigint, pay_by timestamptz, ids bigint[], users bigint[], times timestamptz[], answers text[],
    at timestamptz
)
returns integer
language plpgsql
as $$
declare
    placed integer;
begin
    insert into orders (id, user_id, voucher_id, status, amount, pay_by, created_at, paid_at, updated_at)
    select own, buyer, voucher, case price when 0 then order_paid() else order_unpaid() end, price,
           case when price > 0 then insert_orders.pay_by end, began, case price when 0 then began end, began
    from unnest(ids, users, times, answers) asked (own, buyer, began, answer)
    where answer is null
      and (select paused_until(max(o.cancelled_at), count(*), at) from orders o
           where o.voucher_id = voucher and o.user_id = buyer and is_given_up(o.cancelled_by)) > at is not true;
    get diagnostics placed = row_count;
    return placed;
end
$$;

-- Why each of the orders is not placed, in their order; null: it can be placed. The caller has locked the sale.
create function judge_orders(voucher bigint, ids bigint[], users bigint[], times timestamptz[], at timestamptz)
returns text[]
language plpgsql
as $$
declare
    sale seckill_vouchers%rowtype;
begin
    select s.* into sale from seckill_vouchers s where s.voucher_id = voucher;
    return array(
        with asked as (
            select buyer.*,
                   (select live.id from orders live
                    where live.voucher_id = voucher and live.user_id = buyer.u and is_live(live.status)) as earlier,
                   (select paused_until(max(o.cancelled_at), count(*), at) from orders o
                    where o.voucher_id = voucher and o.user_id = buyer.u and is_given_up(o.cancelled_by)) as again,
                   -- True if an earlier call of the same purchase placed the order; false if another
                   -- purchase has the id; null if nobody has it.
                   (select (o.user_id, o.created_at) = (buyer.u, buyer.began) from orders o
                    where o.id = buyer.own and o.voucher_id = voucher) as is_this_purchase
            from unnest(ids, users, times) with ordinality as buyer (own, u, began, place)
        ), answered as (
            select asked.*,
                   case
                       when is_this_purchase then 'ordered'
                       when earlier is not null then 'already_bought'
                       when sale.voucher_id is null then 'voucher_not_found'
                       -- The clock may go back; a sale that was cancelled is over.
                       when at >= sale.end_time or sale.cancelled_at is not null then 'sale_ended'
                       when at < sale.begin_time then 'sale_not_started'
                       when is_this_purchase = false then 'id_taken'
                       when sale.paused then 'sale_paused'
                       when sale.held_for = for_the_draw() then 'draw_open'
                       when sale.held_for = for_the_line() then 'line_open'
                       when again > at and sale.stock > 0 then 'too_many_requests'
                       when again > at then 'sold_out'
                   end as answer
            from asked
        ), first_of_each_buyer as (
            select answered.*, row_number() over (partition by u, answer order by place) = 1 as is_first
            from answered
        )
        select case
                   when answer is not null then answer
                   when not is_first then 'already_bought'
                   when row_number() over (partition by answer, is_first order by place) > sale.stock then 'sold_out'
               end
        from first_of_each_buyer order by place);
end
$$;

-- What `place_orders` returns of orders that were judged.
create function tell_orders(voucher bigint, ids bigint[], users bigint[], answers text[], at timestamptz)
returns table (order_id bigint, reason text, earlier_id bigint, to_pay bigint, until timestamptz)
language plpgsql
as $$
begin
    return query
    select buyer.own,
           -- Of two orders of one buyer that came together, the first was refused.
           case when answer = 'already_bought' and live.id is null then 'sold_out' else coalesce(answer, 'ordered') end,
           live.id, placed.amount,
           case answer when 'too_many_requests' then (
                            select paused_until(max(o.cancelled_at), count(*), at) from orders o
                            where o.voucher_id = voucher and o.user_id = u and is_given_up(o.cancelled_by))
                       when 'sale_not_started' then (select s.begin_time from seckill_vouchers s where s.voucher_id = voucher)
                       else placed.pay_by end
    from unnest(ids, users, answers) as buyer (own, u, answer)
    left join lateral (
        select o.id from orders o
        where answer = 'already_bought' and o.voucher_id = voucher and o.user_id = u and is_live(o.status)
        limit 1
    ) live on true
    left join lateral (
        select o.amount, o.pay_by from orders o
        where coalesce(answer, 'ordered') = 'ordered' and o.id = buyer.own and o.voucher_id = voucher
        limit 1
    ) placed on true
    where coalesce(answer, 'ordered') <> 'ordered' or placed.pay_by is not null;
end
$$;

-- Orders of one voucher, for whose row it waits as long as a buyer waits.
create function sell(voucher bigint, ids bigint[], users bigint[], times timestamptz[])
returns table (
    of_voucher bigint, order_id bigint, reason text, earlier_id bigint, to_pay bigint, until timestamptz
)
language plpgsql
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '600ms'
as $$
begin
    perform lock_sale(voucher);
    return query select * from place_orders(voucher, ids, users, times, true);
end
$$;

-- Locks the sales of these vouchers, in the order of their ids. It waits 50 ms for a row that another session holds: for so long
-- that a batch of another server has ended. Then it takes those that nobody holds.
create function lock_sales(vouchers bigint[]) returns seckill_vouchers[]
language plpgsql
as $$
begin
    return array(select s from seckill_vouchers s where s.voucher_id = any (vouchers) order by s.voucher_id for no key update);
exception when lock_not_available then
    return array(select s from seckill_vouchers s where s.voucher_id = any (vouchers) order by s.voucher_id
                 for no key update skip locked);
end
$$;

-- Inserts the orders of the vouchers `at_once`, all of them or none. Prices and times to pay are sorted as `sales` is.
create function insert_at_once(
    vouchers bigint[], ids bigint[], users bigint[], times timestamptz[],
    at_once bigint[], sales bigint[], prices bigint[], pay_bys timestamptz[]
)
returns boolean
language plpgsql
as $$
begin
    insert into orders (id, user_id, voucher_id, status, amount, pay_by, created_at, paid_at, updated_at)
    select id, buyer, v, case prices[k] when 0 then order_paid() else order_unpaid() end, prices[k], pay_bys[k],
           began, case prices[k] when 0 then began end, began
    from (select *, width_bucket(v, sales) as k from unnest(vouchers, ids, users, times) a (v, id, buyer, began)) asked
    where at_once[width_bucket(v, at_once)] = v;
    return true;
exception when unique_violation or lock_not_available then
    return false; -- A buyer has an order already, or another session holds that order.
end
$$;

-- The vouchers among the sorted `wanted` ones that no buyer owns already or wants twice, and how many of each are
-- asked for.
create function without_owned(vouchers bigint[], users bigint[], wanted bigint[], out fresh bigint[], out counts bigint[])
language plpgsql
as $$
begin
    select array_agg(v order by v), array_agg(n order by v) into fresh, counts
    from (select v, count(*) as n from unnest(vouchers, users) a (v, buyer) group by v
          having count(*) = count(distinct buyer) and not bool_or(exists (
              select from orders o where o.voucher_id = v and o.user_id = buyer and is_live(o.status)))) one
    where wanted[width_bucket(v, wanted)] = v;
end
$$;

-- Orders of many vouchers. Those of a voucher whose row another session holds are `held`, and nothing was done for them. If all
-- are of one voucher, a row that is held is the error `lock_not_available`.
create function sell_many(vouchers bigint[], ids bigint[], users bigint[], times timestamptz[])
returns table (
    of_voucher bigint, order_id bigint, reason text, earlier_id bigint, to_pay bigint, until timestamptz
)
language plpgsql
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '50ms'
as $$
declare
    at timestamptz;
    -- Of the sales that are locked; one that is not on has no stock here. All arrays are sorted by voucher, and `width_bucket` finds
    -- a voucher's place: a join could be planned as a loop over all pairs.
    locked seckill_vouchers[];
    sales bigint[];
    stocks integer[];
    prices bigint[];
    pay_bys timestamptz[];
    -- The vouchers whose orders are all placed at once, and how many of each.
    at_once bigint[]; counts bigint[];
    other bigint;
begin
    if vouchers[1] = all (vouchers) then
        return query select * from place_orders(vouchers[1], ids, users, times, true);
        return;
    end if;
    locked := lock_sales(vouchers);
    at := sale_time();
    select array_agg(voucher_id), array_agg(price),
           array_agg(case when price > 0 then at + make_interval(secs => pay_within_s) end),
           array_agg(case when at >= begin_time and at < end_time and not paused and cancelled_at is null
                               and held_for = for_anybody() then stock else 0 end)
    into sales, prices, pay_bys, stocks
    from unnest(locked);
    -- The usual case, as in `place_orders`: there is enough for all, and nobody is too soon.
    select array_agg(v order by v), array_agg(n order by v) into at_once, counts
    from (select v, count(*) as n, bool_or((select paused_until(max(o.cancelled_at), count(*), at) from orders o
                                            where o.voucher_id = v and o.user_id = buyer
                                              and is_given_up(o.cancelled_by)) > at) as is_too_soon
          from unnest(vouchers, users) a (v, buyer) group by v) asked
    where sales[width_bucket(v, sales)] = v and n <= stocks[width_bucket(v, sales)] and is_too_soon is not true;
    if not insert_at_once(vouchers, ids, users, times, at_once, sales, prices, pay_bys) then
        select fresh.* into at_once, counts from without_owned(vouchers, users, at_once) fresh;
        if not insert_at_once(vouchers, ids, users, times, at_once, sales, prices, pay_bys) then
            at_once := '{}';
        end if;
    end if;
    update seckill_vouchers s set stock = s.stock - counts[width_bucket(s.voucher_id, at_once)]
    where s.voucher_id = any (at_once);
    return query select v, id, 'ordered', null::bigint, prices[k], pay_bys[k]
                 from (select *, width_bucket(v, sales) as k from unnest(vouchers, ids) a (v, id)) asked
                 where at_once[width_bucket(v, at_once)] = v and prices[k] > 0;
    -- The other vouchers, each by itself.
    for other in select distinct v from unnest(vouchers) v where v = any (at_once) is not true order by v loop
        if sales[width_bucket(other, sales)] = other
           or not exists (select from seckill_vouchers s where s.voucher_id = other) then
            return query select * from place_orders(other,
                array(select id from unnest(vouchers, ids) a (v, id) where v = other),
                array(select u from unnest(vouchers, users) a (v, u) where v = other),
                array(select t from unnest(vouchers, times) a (v, t) where v = other), false);
        else
            return query select v, id, 'held', null::bigint, null::bigint, null::timestamptz
                         from unnest(vouchers, ids) a (v, id) where v = other;
        end if;
    end loop;
end
$$;

-- The live orders that some buyers have of one voucher.
create function orders_of_buyers(voucher bigint, buyers bigint[])
returns table (buyer_id bigint, order_id bigint)
language plpgsql stable
set enable_seqscan = off
as $$
begin
    -- Buyer by buyer, so that each is found by the unique index.
    return query
    select found.buyer, found.own from (
        select b.buyer,
               (select o.id from orders o
                where o.voucher_id = voucher and o.user_id = b.buyer and is_live(o.status)) as own
        from unnest(buyers) b (buyer)
    ) found
    where found.own is not null;
end
$$;

-- Locks a voucher's sale for a step. From here on the step waits 50 ms for whatever else it needs: all buyers of the
-- voucher wait behind it, on all servers, and each server may have such a step. The 50 ms count to the end of the
-- function that the server called, because that function sets `lock_timeout`, too; called by itself, to the end of the
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

-- Every step of one order begins with this: it locks the order, and says in which state it is, and, if the step does not
-- leave that state, why it is not taken.
create function take_step(voucher bigint, own bigint, wanted text, out refusal text, out order_status smallint)
language plpgsql
as $$
begin
    select o.status into order_status from orders o where o.id = own and o.voucher_id = voucher
    for no key update;
    if not found then
        refusal := 'order_not_found';
    elsif not exists (select from order_transitions() t where t.step = wanted and t.leaves = order_status) then
        refusal := 'order_state';
    end if;
end
$$;

-- Every step of one order ends with this: it writes the new state, which it returns, the log, and the stock. The caller has locked the order, which is
-- in the state `found_status`, and, if the step changes the stock, the sale.
create function write_step(
    voucher bigint, own bigint, wanted text, found_status smallint, actor smallint, actor_id bigint, at timestamptz
)
returns smallint
language plpgsql
as $$
declare
    way record;
    -- Citus takes no subquery in `insert … values`.
    number integer := 1 + coalesce((select max(s.number) from order_steps s where s.order_id = own and s.voucher_id = voucher), 0);
begin
    select t.* into way from order_transitions() t where t.step = wanted and t.leaves = found_status;
    if not found then
        raise exception 'order % cannot be %, its status is %', own, wanted, found_status;
    end if;
    update orders o
    set status = way.enters, updated_at = at,
        paid_at = case when way.enters = order_paid() then at else o.paid_at end,
        used_at = case when wanted = 'redeemed' then at else o.used_at end,
        cancelled_at = case when way.enters = order_cancelled() then at when wanted <> 'revived' then o.cancelled_at end,
        cancelled_by = case when way.enters = order_cancelled() then actor when wanted <> 'revived' then o.cancelled_by end,
        refunded_at = case when way.enters = order_refunded() and way.leaves <> way.enters then at else o.refunded_at end,
        charged_back_at = case when wanted = 'charged_back' then at when wanted <> 'charge_back_won' then o.charged_back_at end
    where o.id = own and o.voucher_id = voucher;
    insert into order_steps (voucher_id, order_id, number, step, status_before, status_after, actor, actor_id, at)
    values (voucher, own, number, wanted, found_status, way.enters, actor, actor_id, at);
    if way.stock_change <> 0 then
        update seckill_vouchers set stock = stock + way.stock_change, revision = revision + 1 where voucher_id = voucher;
    end if;
    return way.enters;
end
$$;

-- The same of a voucher, whose sale the caller has locked: one row in the log.
create function write_voucher_step(
    voucher bigint, wanted text, details jsonb, actor smallint, actor_id bigint, at timestamptz
)
returns void
language plpgsql
as $$
declare
    number integer := 1 + coalesce((select max(s.number) from voucher_steps s where s.voucher_id = voucher), 0);
begin
    insert into voucher_steps (voucher_id, number, step, details, actor, actor_id, at)
    values (voucher, number, wanted, details, actor, actor_id, at);
end
$$;

-- What an administrator can change of a voucher.
create function voucher_terms(voucher bigint) returns jsonb
language plpgsql
as $$
begin
    return (select to_jsonb(it) from (
        select v.title, v.subtitle, v.terms, v.value, s.price, s.pay_within_s, s.initial_stock, s.begin_time, s.end_time, s.paused
        from vouchers v join seckill_vouchers s on s.voucher_id = v.id where v.id = voucher) it);
end
$$;

-- An administrator has changed a voucher, which was as `before`: what differs goes into the log. The caller has locked the sale.
create function log_voucher_change(voucher bigint, actor_id bigint, before jsonb) returns void
language plpgsql
as $$
declare
    after jsonb := voucher_terms(voucher);
    details jsonb := (select jsonb_object_agg(member, jsonb_build_array(before -> member, after -> member))
                      from jsonb_object_keys(after) member where before -> member <> after -> member);
begin
    if details is not null then
        perform write_voucher_step(
            voucher,
            case when details - 'paused' <> '{}' then case when details - 'initial_stock' = '{}' then 'restocked' else 'changed' end
                 when (after -> 'paused')::boolean then 'paused' else 'resumed' end,
            details, actor_administrator(), actor_id, sale_time());
    end if;
end
$$;

-- Cancels an unpaid order. Its voucher is on sale again, and the gateway is to be told of a payment that is pending. Returns why
-- it was not done, or null, and the state that the order has now.
create function cancel_order(
    voucher bigint, own bigint, actor smallint, actor_id bigint, out refusal text, out order_status smallint
)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
begin
    perform lock_sale(voucher);
    select step.* into refusal, order_status from take_step(voucher, own, 'cancelled') step;
    if refusal is not null then
        return;
    end if;
    at := sale_time();
    order_status := write_step(voucher, own, 'cancelled', order_status, actor, actor_id, at);
    perform send_of_pending(voucher, array[own], 'cancel_payment', at);
end
$$;

-- Cancels those of `ids`, orders of `voucher`, whose time to pay is over, and puts their vouchers back on
-- sale. Returns how many. Orders that another session is changing right now are left for the next time.
--
-- If a buyer was sent to the gateway, and nothing is known of the payment, the gateway is asked first: the order waits for
-- `gateway_answered`, or for so many seconds. Meanwhile `asked_until` keeps it out of the servers' look: however many orders wait
-- for a silent gateway, they delay no other. The time begins with the question, so that also orders whose time was over while no
-- server ran are asked for.
--
-- The state is asked for within a `case`, so that the planner cannot go by an index of unpaid orders, which it takes for the cheapest
-- while the table has no statistics, and which a backlog makes long.
create function expire_orders(voucher bigint, ids bigint[], ask_within_s double precision) returns bigint
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    until timestamptz;
    due bigint[];
    unasked bigint[];
    asked bigint[];
begin
    perform lock_sale(voucher);
    at := sale_time();
    until := at + make_interval(secs => ask_within_s);
    select array_agg(own.id), array_agg(own.id) filter (where own.asked_until is null) into due, unasked
    from (
        select o.id, o.asked_until from orders o
        where o.id = any (ids) and o.voucher_id = voucher
          and case when o.status = order_unpaid() then coalesce(o.asked_until, o.pay_by) end <= at
        for no key update skip locked
    ) own;
    if until > at then
        perform send_of_pending(voucher, unasked, 'ask_payment', at);
        -- What was written counts: a payment may have failed meanwhile.
        asked := array(
            select own from unnest(unasked) own
            where at = any (array(select m.next_attempt_at from messages m
                                  where m.order_id = own and m.voucher_id = voucher and m.kind = 'ask_payment')));
        update orders set asked_until = until where voucher_id = voucher and id = any (asked);
        due := (select array_agg(own) from unnest(due) own where own <> all (asked));
    end if;
    if due is null then
        return 0;
    end if;
    update orders set status = order_cancelled(), cancelled_at = at, cancelled_by = actor_time(), updated_at = at
    where voucher_id = voucher and id = any (due);
    -- An order that was never paid has taken no step before.
    insert into order_steps
        (voucher_id, order_id, number, step, status_before, status_after, actor, at)
    select voucher, own, 1, 'cancelled', order_unpaid(), order_cancelled(), actor_time(), at from unnest(due) own;
    perform send_of_pending(voucher, due, 'cancel_payment', at);
    update seckill_vouchers set stock = stock + cardinality(due), revision = revision + 1
    where voucher_id = voucher;
    return cardinality(due);
end
$$;

-- The gateway has said what it knows of a payment, and that is written. If the order is still unpaid, time cancels it at the next
-- look of a server; or, if the database's clock went back and the buyer may pay again, the gateway is asked anew when the time is over.
create function gateway_answered(voucher bigint, own bigint, payment_number integer) returns void
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    bought orders%rowtype;
begin
    select o.* into bought from orders o where o.id = own and o.voucher_id = voucher for no key update;
    at := sale_time();
    if bought.status = order_unpaid() and bought.asked_until > at then
        update orders set asked_until = case when pay_by <= at then at end where id = own and voucher_id = voucher;
    end if;
    perform end_message(voucher, own, 'ask_payment', payment_number);
end
$$;

-- Enters each of `buyers` into the draw of a voucher, or at the end of its line, as the entry of `ids` at the same place;
-- where that is null, takes the buyer out again. Nobody leaves between the close of the entries and the draw: what is
-- published then stays.
--
-- Returns for each, in their order, `entered` (with the time), or what `judge_entry` says. All callers wait for the sale's row,
-- so this function does not count the line: it returns the block of 64 places of an entry, and how many entries of the block
-- are ahead (src/store/entries.rs).
create function enter_line(voucher bigint, buyers bigint[], ids uuid[])
returns table (outcome text, entry_id uuid, earlier_id bigint, until timestamptz, ahead bigint, block bigint)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    terms vouchers%rowtype;
    sale seckill_vouchers%rowtype;
    buyer bigint;
    own_place bigint;
    written_at timestamptz;
    is_changed boolean := false;
begin
    perform lock_sale(voucher);
    at := sale_time();
    select v.* into terms from vouchers v where v.id = voucher;
    select s.* into sale from seckill_vouchers s where s.voucher_id = voucher;
    written_at := greatest(at, terms.line_time);
    for k in 1 .. cardinality(buyers) loop
        buyer := buyers[k];
        entry_id := (select e.id from entries e where e.voucher_id = voucher and e.user_id = buyer and e.status = entry_waiting());
        select judged.* into outcome, earlier_id, until from judge_entry(terms, sale, buyer, entry_id, ids[k] is null, at) judged;
        ahead := null;
        block := null;
        is_changed := is_changed or outcome in ('left', 'entered');
        if outcome = 'left' then
            update entries e set status = entry_gone(), ended_at = written_at, times_left = e.times_left + 1
            where e.voucher_id = voucher and e.id = entry_id;
        elsif outcome = 'entered' then
            until := written_at;
            select written.* into entry_id, own_place
            from write_entry(voucher, buyer, ids[k], sale.held_for <> for_the_draw(), written_at) written;
            sale.entered := sale.entered + (entry_id = ids[k])::integer; -- not whoever comes back
            block := own_place / 64;
            if block is not null then
                -- In the order of their places, so that the statement uses the index of places, also if nobody is known to
                -- wait.
                ahead := (select count(*) from (
                              select e.place from entries e
                              where e.voucher_id = voucher and e.status = entry_waiting() and e.place > 0
                                and e.place >= block * 64 and e.place < own_place
                              order by e.place limit 64) e);
            end if;
        end if;
        return next;
    end loop;
    update seckill_vouchers s set entered = sale.entered where s.voucher_id = voucher and s.entered <> sale.entered;
    if is_changed then
        perform mark_line(voucher, written_at);
    end if;
end
$$;

-- The old entry of a buyer who comes back. Null: there is none, or it was drawn, and stays as it was published.
create function entry_of_before(voucher bigint, buyer bigint, closed_at timestamptz) returns uuid
language sql stable
as $$
    select e.id from entries e
    where e.voucher_id = voucher and e.user_id = buyer and e.status = entry_gone()
      and (e.entered_at < closed_at and e.ended_at >= closed_at) is not true
    limit 1
$$;

-- The outcome of a buyer's request to enter or to leave: `entered`, `entered_before`, `left` or `not_entered`, or why not:
-- `voucher_not_found`, `sale_not_started` (with the time), `sale_ended`, `sale_paused`, `already_bought` (with the order),
-- `too_many_requests` (with the time, after the buyer gave an order up, or left), `forbidden` (an administrator removed an entry
-- of the buyer), `draw_closed` (the entries are, and the draw is to come), `line_closed` (the voucher has no line, or anybody may buy it), or `entries_full` (the sale has as many as it
-- may have, and not this buyer's). `entry_id` is that of the entry that waits. The caller has locked the sale.
create function judge_entry(
    terms vouchers, sale seckill_vouchers, buyer bigint, entry_id uuid, leaves boolean, at timestamptz,
    out outcome text, out earlier_id bigint, out until timestamptz
)
language plpgsql
as $$
declare
    -- Rows are not written as earlier than `line_time`: entries that were closed, or published, stay so if the clock goes back.
    is_closed boolean := sale.held_for = for_the_draw() and greatest(at, terms.line_time) >= terms.draw_time;
begin
    earlier_id := (select o.id from orders o
                   where o.voucher_id = sale.voucher_id and o.user_id = buyer and is_live(o.status));
    until := greatest(
        (select paused_until(max(o.cancelled_at), count(*), at) from orders o
         where o.voucher_id = sale.voucher_id and o.user_id = buyer and is_given_up(o.cancelled_by)),
        (select paused_until(max(e.ended_at) filter (where e.status = entry_gone()), sum(e.times_left), at) from entries e
         where e.voucher_id = sale.voucher_id and e.user_id = buyer));
    outcome := case
        when sale.voucher_id is null then 'voucher_not_found'
        when earlier_id is not null then 'already_bought'
        when not leaves and entry_id is not null then 'entered_before'
        when leaves and entry_id is null then 'not_entered'
        when leaves and is_closed and sale.cancelled_at is null then 'draw_closed'
        when leaves then 'left'
        when at >= sale.end_time or sale.cancelled_at is not null then 'sale_ended'
        when at < sale.begin_time then 'sale_not_started'
        when sale.paused then 'sale_paused'
        when is_closed then 'draw_closed'
        when exists (select from entries e
                     where e.voucher_id = sale.voucher_id and e.user_id = buyer and e.is_removed) then 'forbidden'
        when until > at then 'too_many_requests'
        when not terms.has_line or (sale.held_for = for_anybody() and sale.stock > 0) then 'line_closed'
        when sale.entered >= sale.max_entries and entry_of_before(sale.voucher_id, buyer, terms.draw_time) is null
            then 'entries_full'
        else 'entered'
    end;
    until := case outcome when 'too_many_requests' then until when 'sale_not_started' then sale.begin_time end;
end
$$;

-- An administrator takes an entry out of the draw or the line of a voucher, and says why. Its buyer does not enter again. Returns
-- why it was not done, or null; and the order if the entry was offered one. As buyers do not leave then, nobody is taken out
-- between the close of the entries and the draw.
create function remove_entry(
    voucher bigint, own uuid, why text, actor_id bigint, out refusal text, out offered_id bigint
)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    written_at timestamptz;
    terms vouchers%rowtype;
    sale seckill_vouchers%rowtype;
    entry entries%rowtype;
begin
    perform lock_sale(voucher);
    select v.* into terms from vouchers v where v.id = voucher;
    select s.* into sale from seckill_vouchers s where s.voucher_id = voucher;
    select e.* into entry from entries e where e.id = own and e.voucher_id = voucher;
    written_at := greatest(sale_time(), terms.line_time);
    offered_id := entry.order_id;
    refusal := case
        when sale.voucher_id is null then 'voucher_not_found'
        when entry.status = entry_offered() then 'already_bought'
        when entry.status is distinct from entry_waiting() then 'entry_not_found'
        when sale.held_for = for_the_draw() and written_at >= terms.draw_time and sale.cancelled_at is null then 'draw_closed'
    end;
    if refusal is not null then
        return;
    end if;
    update entries e set status = entry_gone(), ended_at = written_at, is_removed = true
    where e.voucher_id = voucher and e.id = own;
    perform write_voucher_step(voucher, 'entry_removed',
        jsonb_build_object('entry_id', own, 'user_id', entry.user_id::text, 'reason', why),
        actor_administrator(), actor_id, written_at);
    perform mark_line(voucher, written_at);
end
$$;

-- Writes the entry of a buyer who waits for no draw or line of the voucher: at the end of the line, or, before a draw, without
-- a place. A buyer who comes back gets the old row and id, so nobody can try one id after another, or create row after row. But
-- an entry that was drawn stays as it was published. The caller has locked the sale.
create function write_entry(
    voucher bigint, buyer bigint, new_id uuid, is_in_line boolean, at timestamptz, out entry_id uuid, out own_place bigint
)
language plpgsql
as $$
declare
    closed_at timestamptz := (select v.draw_time from vouchers v where v.id = voucher);
begin
    if is_in_line then
        own_place := 1 + coalesce((select max(e.place) from entries e where e.voucher_id = voucher and e.place > 0), 0);
    end if;
    entry_id := entry_of_before(voucher, buyer, closed_at);
    if entry_id is null then
        entry_id := new_id;
        insert into entries (voucher_id, id, user_id, entered_at, place) values (voucher, new_id, buyer, at, own_place);
    else
        update entries e set status = entry_waiting(), ended_at = null, is_passed = false, entered_at = at, place = own_place
        where e.voucher_id = voucher and e.id = entry_id;
    end if;
end
$$;

-- For whom the stock of a voucher is held once its draw is over: for the line, if anybody stands in it. While the stock is 0,
-- nobody can buy the voucher either way, and the servers' caches of the revision stay valid. The caller has locked the sale.
create function mark_line(voucher bigint, at timestamptz) returns void
language plpgsql
as $$
declare
    is_line boolean := exists (select from entries e where e.voucher_id = voucher and e.status = entry_waiting());
begin
    update vouchers v set line_time = at where v.id = voucher and (v.line_time < at) is not false;
    update seckill_vouchers s
    set held_for = case when is_line then for_the_line() else for_anybody() end, revision = s.revision + (s.stock > 0)::integer
    where s.voucher_id = voucher and s.held_for <> for_the_draw() and (s.held_for = for_the_line()) <> is_line;
end
$$;

-- Draws the entries of a voucher when it is time. Returns `drawn`, or `idle`: it is not time, or it was done.
--
-- The draw is one transaction: it is made as a whole, and once. Its order is that of the SHA-256 of the ASCII text
-- `voucher:seed:number:entry`.
create function draw_entries(voucher bigint) returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    terms vouchers%rowtype;
    sale seckill_vouchers%rowtype;
    drawn uuid[];
begin
    perform lock_sale(voucher);
    select s.* into sale from seckill_vouchers s where s.voucher_id = voucher;
    select v.* into terms from vouchers v where v.id = voucher;
    at := greatest(sale_time(), terms.line_time);
    if sale.held_for is distinct from for_the_draw() or sale.paused or sale.cancelled_at is not null
       or at < sale.begin_time or at >= sale.end_time
       or at < terms.draw_time or (terms.draw_beacon <> '' and terms.draw_beacon_number is null) then
        return 'idle';
    end if;
    -- First the order: Citus takes no `convert_to` in an update.
    drawn := array(
        select d.id from entries d where d.voucher_id = voucher and d.status = entry_waiting()
        order by sha256(convert_to(voucher || ':' || terms.draw_seed || ':'
                                   || coalesce(terms.draw_beacon_number, '') || ':' || d.id, 'UTF8')), d.id);
    update entries e set place = d.place
    from unnest(drawn) with ordinality d (id, place)
    where e.voucher_id = voucher and e.id = d.id;
    update vouchers v set drawn_at = at where v.id = voucher;
    update seckill_vouchers set held_for = for_the_line(), revision = revision + 1 where voucher_id = voucher;
    perform mark_line(voucher, at);
    return 'drawn';
end
$$;

-- Offers the stock of a voucher to those who are first in line: an order for each of up to `ids`, by the same `sell` by which
-- everybody buys. Returns `offered`; or, if nothing was changed, `idle`, `sale_ended` (meanwhile), `id_taken` (an id is another
-- order's: it is called again, with others), or `refused` (one of the first cannot have it now).
--
-- Why nobody is passed: whoever enters, leaves or is served locks the sale's row, and from the draw on no other order
-- of the voucher is placed while somebody waits. An offer that cannot be made to the first is made to nobody, unless the caller has
-- waited for long enough (`passes`), and somebody else waits: then those who cannot have it are `passed`. They go to the end of the
-- line, or, with a live order, out of it.
create function offer_to_line(voucher bigint, ids bigint[], passes boolean, out outcome text, out passed bigint[])
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    sale seckill_vouchers%rowtype;
    first_entries uuid[];
    buyers bigint[];
    refused record;
    k integer;
    written_at timestamptz;
begin
    passed := '{}';
    outcome := 'idle';
    perform lock_sale(voucher);
    at := sale_time();
    select s.* into sale from seckill_vouchers s where s.voucher_id = voucher;
    if sale.held_for is distinct from for_the_line() or sale.paused or sale.cancelled_at is not null
       or at < sale.begin_time or at >= sale.end_time
       or not is_offer_time((select v.offer_between from vouchers v where v.id = voucher), at) then
        return;
    end if;
    select array_agg(e.id order by e.place), array_agg(e.user_id order by e.place) into first_entries, buyers
    from (select * from entries e where e.voucher_id = voucher and e.status = entry_waiting() and e.place > 0
          order by e.place limit least(sale.stock, cardinality(ids))) e;
    if first_entries is null then
        return;
    end if;
    written_at := greatest(at, (select v.line_time from vouchers v where v.id = voucher));
    -- For this transaction, which has the row, anybody may buy: nobody else sees it.
    update seckill_vouchers set held_for = for_anybody() where voucher_id = voucher;
    for refused in
        select s.order_id, s.reason
        from sell(voucher, ids[1:cardinality(buyers)], buyers, array_fill(at, array[cardinality(buyers)])) s
        where s.reason <> 'ordered'
    loop
        if refused.reason in ('id_taken', 'sale_ended') then
            raise sqlstate 'SK002' using message = refused.reason; -- which takes back all of it
        elsif not passes or refused.reason not in ('already_bought', 'too_many_requests') then
            raise sqlstate 'SK002' using message = 'refused';
        end if;
        k := array_position(ids, refused.order_id);
        passed := passed || buyers[k];
        update entries e set status = entry_gone(), ended_at = written_at, is_passed = true
        where e.voucher_id = voucher and e.id = first_entries[k];
        if refused.reason = 'too_many_requests' then
            perform write_entry(voucher, buyers[k], gen_random_uuid(), true, written_at);
        end if;
    end loop;
    -- A buyer who waits alone, or only with others who cannot have it either, would be passed again and again
    -- for nobody.
    if exists (select from entries e where e.voucher_id = voucher and e.status = entry_waiting() and e.user_id = any (passed))
       and not exists (select from entries e where e.voucher_id = voucher and e.status = entry_waiting() and e.user_id <> all (passed)) then
        raise sqlstate 'SK002' using message = 'refused';
    end if;
    update entries e set status = entry_offered(), order_id = offered.own, ended_at = written_at
    from unnest(first_entries, ids[1:cardinality(buyers)]) offered (id, own)
    where e.voucher_id = voucher and e.id = offered.id and e.user_id <> all (passed);
    update seckill_vouchers set held_for = for_the_line(), revision = revision + 1 where voucher_id = voucher;
    perform mark_line(voucher, written_at);
    outcome := 'offered';
exception
    when sqlstate 'SK002' then
        outcome := sqlerrm;
        passed := '{}';
end
$$;

-- Redeems a paid order. Returns as `cancel_order` does.
create function redeem_order(
    voucher bigint, own bigint, actor_id bigint, out refusal text, out order_status smallint
)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
begin
    select step.* into refusal, order_status from take_step(voucher, own, 'redeemed') step;
    if refusal is not null then
        return;
    end if;
    order_status := write_step(voucher, own, 'redeemed', order_status, actor_administrator(), actor_id, sale_time());
end
$$;

-- Begins to give the money of a paid order back. An order that cost nothing is refunded at once, and its
-- voucher is on sale again. Returns as `cancel_order` does.
create function refund_order(
    voucher bigint, own bigint, actor_id bigint, out refusal text, out order_status smallint
)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    -- What an order costs never changes, so it can be read before the order is locked.
    is_free boolean := (select o.amount = 0 from orders o where o.id = own and o.voucher_id = voucher);
    wanted text := case when is_free then 'refunded' else 'refund_begun' end;
    applied integer;
begin
    if is_free then
        perform lock_sale(voucher);
    end if;
    select step.* into refusal, order_status from take_step(voucher, own, wanted) step;
    if refusal is not null then
        return;
    end if;
    at := sale_time();
    order_status := write_step(voucher, own, wanted, order_status, actor_administrator(), actor_id, at);
    if is_free then
        return;
    end if;
    insert into refunds (voucher_id, order_id, number, reason, created_at)
    select voucher, own, p.number, 'refund', at
    from payments p where p.order_id = own and p.voucher_id = voucher and p.status = payment_applied()
    returning number into applied;
    if not found then
        raise exception 'order % is paid, and no payment was applied to it', own;
    end if;
    perform send_message(voucher, own, 'refund', applied, at);
end
$$;

-- Begins a payment of `buyer`'s order, or finds the one that is pending. Returns why it did not, or the payment; and the state of
-- the order. An order whose time is over counts as cancelled, also before a server has come to write it.
--
-- `ask_gateway`: the gateway has not said yet where to pay, and this caller is to ask it, within `ask_within_s`.
-- Until then every other caller gets false and `wait_ms`, so that one message of a payment is under way at a time.
create function open_payment(
    voucher bigint, own bigint, buyer bigint, ask_within_s double precision,
    out refusal text, out order_status smallint, out payment_number integer, out to_pay bigint, out until timestamptz, out url text,
    out ask_gateway boolean, out attempt integer, out wait_ms bigint
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
    from payments p where p.order_id = own and p.voucher_id = voucher and p.status = payment_pending()
    for no key update;
    select o.* into bought
    from orders o where o.id = own and o.voucher_id = voucher and o.user_id = buyer
    for no key update;
    if not found then
        refusal := 'order_not_found';
        return;
    end if;
    at := sale_time();
    order_status := case when bought.status = order_unpaid() and bought.pay_by <= at then order_cancelled() else bought.status end;
    if order_status <> order_unpaid() then
        refusal := 'order_state';
        return;
    end if;
    claimed_until := at + make_interval(secs => ask_within_s);
    ask_gateway := false;
    if pending.number is null then
        -- With the order locked nobody else opens a payment of it; one may have come before the lock.
        select p.* into pending
        from payments p where p.order_id = own and p.voucher_id = voucher and p.status = payment_pending();
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
    payment_number := pending.number;
    to_pay := pending.amount;
    until := bought.pay_by;
    url := pending.pay_url;
    attempt := pending.attempts;
    wait_ms := ceil(1000 * extract(epoch from greatest(pending.next_attempt_at - at, interval '0')));
end
$$;

-- Locks the money of this name, and then the payment, which it returns; nulls: there is no such payment. Of two notices of
-- one transaction, the second waits here and finds what the first has written.
create function lock_payment(voucher bigint, own bigint, payment_number integer, transaction text) returns payments
language plpgsql
as $$
declare
    payment payments%rowtype;
begin
    perform pg_advisory_xact_lock(hashtextextended(transaction, voucher));
    select p.* into payment
    from payments p where p.order_id = own and p.number = payment_number and p.voucher_id = voucher for no key update;
    return payment;
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
    payment payments%rowtype;
    found_status smallint;
begin
    payment := lock_payment(voucher, own, payment_number, transaction);
    if payment.number is null then
        return 'unknown';
    end if;
    select o.status into found_status from orders o where o.id = own and o.voucher_id = voucher for no key update;
    if found_status is distinct from order_unpaid() or paid <> payment.amount or payment.transaction_id is not null
       or exists (select from payments p where p.transaction_id = transaction and p.voucher_id = voucher)
       or exists (select from returns b where b.transaction_id = transaction and b.voucher_id = voucher) then
        return null;
    end if;
    perform write_payment(voucher, payment, transaction, paid, 'applied', sale_time());
    return 'applied';
end
$$;

-- The same in every other case: `payment_outcome` says which one it is, and `write_payment` writes what follows. If the
-- gateway said before that it gave the money back, all of it or more, it returns `returned` or `returned_twice`.
create function judge_payment(
    voucher bigint, own bigint, payment_number integer, transaction text, paid bigint
)
returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    payment payments%rowtype;
    outcome text;
    at timestamptz;
    kept_as integer;
    rest bigint;
begin
    payment := lock_payment(voucher, own, payment_number, transaction);
    outcome := payment_outcome(voucher, own, payment, transaction, paid);
    at := sale_time();
    if outcome in ('unknown', 'repeated') then
        return outcome;
    end if;
    kept_as := write_payment(voucher, payment, transaction, paid, outcome, at);
    update returns b set order_id = own, is_early = false where b.transaction_id = transaction and b.voucher_id = voucher;
    select p.* into payment from payments p where p.order_id = own and p.number = kept_as and p.voucher_id = voucher;
    rest := follow_returns(voucher, payment, by_the_gateway_itself(), null, at);
    return case when rest > 0 then outcome when rest = 0 then 'returned' else 'returned_twice' end;
end
$$;

-- What becomes of money. It returns the first that fits, and locks the sale and the order unless the money is known:
--
--     there is no such payment                                     unknown          the server keeps the money
--     another order of the voucher has this money                  unknown          the server keeps the notice
--     the order has this money already                             repeated         nothing
--     there is no such order any more                              order_missing    the money goes back
--     it is not what was asked for                                 wrong_amount     the money goes back
--     the order is unpaid                                          applied          the order is paid
--     *time* cancelled it, and what it was for is still there:
--     stock is left, anybody may buy it (`held_for`), the sale
--     was not cancelled as a whole, and the buyer has no live
--     order of the voucher                                         revived          the order is paid, the stock one less
--     it is cancelled otherwise                                    order_cancelled  the money goes back
--     a charge-back of as much was won: it may be the same money   unknown          the server keeps the notice
--     all its money went back, by a charge-back                    charge_back_won  the order has its money again
--     it is paid, used, refunding or refunded                      order_paid       the money goes back
--
-- The order's own money may be kept as another payment of the order. If the money paid for another order, an administrator
-- has to look at it.
--
-- Why an order that time cancelled is revived: the buyer paid for what is still there, so no promise is broken. If a person
-- cancelled it, the buyer may have been told so. Whether the sale is over or paused does not matter: the buyer bought
-- in time.
create function payment_outcome(voucher bigint, own bigint, payment payments, transaction text, paid bigint) returns text
language plpgsql
as $$
declare
    known_of bigint := (select p.order_id from payments p where p.transaction_id = transaction and p.voucher_id = voucher);
    sale seckill_vouchers%rowtype;
    bought orders%rowtype;
begin
    if payment.number is null or known_of <> own then
        return 'unknown';
    elsif known_of = own then
        return 'repeated';
    end if;
    perform lock_sale(voucher);
    select s.* into sale from seckill_vouchers s where s.voucher_id = voucher;
    select o.* into bought from orders o where o.id = own and o.voucher_id = voucher for no key update;
    return case
        when bought.id is null then 'order_missing'
        when paid <> payment.amount then 'wrong_amount'
        when bought.status = order_unpaid() then 'applied'
        when bought.status = order_cancelled() and bought.cancelled_by = actor_time()
             and sale.stock > 0 and sale.held_for = for_anybody() and sale.cancelled_at is null
             and not exists (select from orders live
                             where live.voucher_id = voucher and live.user_id = bought.user_id
                               and is_live(live.status)) then 'revived'
        when bought.status = order_cancelled() then 'order_cancelled'
        -- A gateway may tell of a charge-back that was won as of new money.
        when paid = (
            select sum(b.amount) from payments p join returns b on b.transaction_id = p.transaction_id and b.voucher_id = voucher
            where p.order_id = own and p.voucher_id = voucher and p.status = payment_applied()
              and b.done_by = by_charge_back() and b.undone_at is null
              -- Money that we had begun to give back is the buyer's.
              and not exists (select from refunds r
                              where r.order_id = own and r.number = p.number and r.voucher_id = voucher)) then 'charge_back_won'
        when exists (
            select from payments p join returns b on b.transaction_id = p.transaction_id and b.voucher_id = voucher
            where p.order_id = own and p.voucher_id = voucher and p.status = payment_applied()
              and b.done_by = by_charge_back() and b.undone_at is not null and b.amount = paid) then 'unknown'
        else 'order_paid'
    end;
end
$$;

-- Writes a message, which the servers send from `at` on. One that was sent before is sent again; that counts as an attempt, so that
-- a server which is sending it now does not end it. The caller has locked the order.
create function send_message(voucher bigint, own bigint, what text, about integer, at timestamptz) returns void
language plpgsql
as $$
begin
    insert into messages (voucher_id, order_id, kind, number, channel, next_attempt_at, created_at)
    values (voucher, own, what, about, to_gateway(), at, at)
    on conflict (voucher_id, order_id, kind, number)
    do update set next_attempt_at = excluded.next_attempt_at, attempts = messages.attempts + 1;
end
$$;

-- The same about each pending payment of the orders `ids`. Nobody asks about one of which no buyer was told where to pay.
create function send_of_pending(voucher bigint, ids bigint[], what text, at timestamptz) returns void
language plpgsql
as $$
begin
    insert into messages (voucher_id, order_id, kind, number, channel, next_attempt_at, created_at)
    select voucher, p.order_id, what, p.number, to_gateway(), at, at
    from payments p
    where p.order_id = any (ids) and p.voucher_id = voucher and p.status = payment_pending()
      and (what <> 'ask_payment' or p.pay_url is not null)
    on conflict (voucher_id, order_id, kind, number)
    do update set next_attempt_at = excluded.next_attempt_at, attempts = messages.attempts + 1;
end
$$;

-- A message is not sent any more.
create function end_message(voucher bigint, own bigint, what text, about integer) returns void
language plpgsql
as $$
begin
    update messages set next_attempt_at = null, last_error = null
    where order_id = own and number = about and voucher_id = voucher and kind = what;
end
$$;

-- Writes money of which `outcome` is known: into the payment that was asked for, or, if that has money
-- already, as a payment of its own (the gateway took money twice for one payment). The order is paid, or the money
-- gets its refund. Returns the number of the payment. The caller has locked the order, so nobody takes the next number.
create function write_payment(
    voucher bigint, payment payments, transaction text, paid bigint, outcome text, at timestamptz
)
returns integer
language plpgsql
as $$
declare
    own bigint := payment.order_id;
    is_applied boolean := outcome in ('applied', 'revived', 'charge_back_won');
    new_status smallint := case when is_applied then payment_applied() else payment_given_back() end;
    why text := case when not is_applied then outcome end;
    announced_as integer := case when payment.transaction_id is not null then payment.number end;
    found_status smallint := (select o.status from orders o where o.id = own and o.voucher_id = voucher);
    kept_as integer := payment.number;
begin
    if announced_as is not null then
        insert into payments (voucher_id, order_id, number, amount, status, transaction_id,
                              paid_amount, confirmed_at, reason, created_at, announced)
        select voucher, own, max(p.number) + 1, payment.amount, new_status, transaction, paid, at, why, at, announced_as
        from payments p where p.order_id = own and p.voucher_id = voucher
        returning payments.number into kept_as;
    else
        update payments
        set status = new_status, transaction_id = transaction, paid_amount = paid, confirmed_at = at, reason = why
        where order_id = own and number = payment.number and voucher_id = voucher;
    end if;
    -- The gateway took the money: it is not told any more that the payment is not wanted.
    perform end_message(voucher, own, 'cancel_payment', payment.number);
    if is_applied then
        perform write_step(voucher, own, case outcome when 'applied' then 'paid' else outcome end, found_status, actor_gateway(), null, at);
        -- The money that was charged back does not pay for the order any more.
        update payments p set status = payment_given_back(), reason = 'charge_back_won'
        where p.order_id = own and p.voucher_id = voucher and p.status = payment_applied() and p.number <> kept_as;
        perform send_of_pending(voucher, array[own], 'cancel_payment', at);
    else
        insert into refunds (voucher_id, order_id, number, reason, created_at) values (voucher, own, kept_as, why, at);
        perform send_message(voucher, own, 'refund', kept_as, at);
    end if;
    return kept_as;
end
$$;

-- The gateway says that a payment failed: it took nothing. Returns `failed`, `unknown`, `repeated`, or `was_refunded`: its money
-- came, and went back. If that failed, the gateway has to say so of the return.
create function fail_payment(voucher bigint, own bigint, payment_number integer) returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    payment payments%rowtype;
begin
    update payments set status = payment_failed()
    where order_id = own and number = payment_number and voucher_id = voucher and status = payment_pending();
    if found then
        return 'failed';
    end if;
    select p.* into payment from payments p where p.order_id = own and p.number = payment_number and p.voucher_id = voucher;
    return case when payment.number is null then 'unknown'
                when left_of(voucher, payment.transaction_id, payment.paid_amount) < payment.paid_amount then 'was_refunded'
                else 'repeated' end;
end
$$;

-- What is left of money: 0 if all of it went back, less if more went back than came.
create function left_of(voucher bigint, transaction text, paid bigint) returns bigint
language plpgsql
as $$
begin
    return paid - coalesce((select sum(b.amount) from returns b
                            where b.transaction_id = transaction and b.voucher_id = voucher and b.undone_at is null), 0);
end
$$;

-- The gateway gave money back without being asked: `kind` says whether it did so by itself, or after a charge-back. `part` is the
-- gateway's own name of what it gave back. Returns `unknown` (there is no such payment), `repeated`, `partial` (so much is not
-- left; nothing was changed), `kept` (the money is not known yet: the row waits for it), or what `write_return` returns.
--
-- The transaction is the name of the money: the order that it paid counts, even if the notice names another one. `returned` is the
-- whole amount, or a part. If a part went back before, a notice of the whole amount is about the rest.
create function return_payment(
    voucher bigint, own bigint, payment_number integer, transaction text, returned bigint, kind smallint, part text
)
returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    payment payments%rowtype;
    money payments%rowtype;
    whole bigint;
    rest bigint;
    amount bigint;
begin
    payment := lock_payment(voucher, own, payment_number, transaction);
    if payment.number is null then
        return 'unknown';
    end if;
    select p.* into money from payments p where p.transaction_id = transaction and p.voucher_id = voucher for no key update;
    perform lock_sale(voucher);
    perform from orders o where o.id in (own, money.order_id) and o.voucher_id = voucher order by o.id for no key update;
    at := sale_time();
    whole := coalesce(money.paid_amount, payment.amount);
    rest := left_of(voucher, transaction, whole);
    amount := case when returned = whole and rest > 0 then rest else returned end;
    if is_told_again(voucher, transaction, returned, kind, part, whole, rest) then
        return 'repeated';
    elsif money.number is null then
        perform insert_return(voucher, own, transaction, amount, kind, null, part, at, true);
        return 'kept';
    elsif returned > whole or (rest > 0 and amount > rest) then
        return 'partial';
    end if;
    return write_return(
        voucher, money, amount, kind,
        case when kind = by_the_gateway_itself() and (amount = rest or returned = whole) then asked_name(voucher, money) end,
        part, null, at);
end
$$;

-- Whether such a notice is about a return that is known. One that has a name is, if a return has the name. Without a name nobody
-- can tell a part that is told twice from two parts: each counts, so that no more than is left is ever asked for. But a notice of
-- the `whole` amount, or of more than is left (`rest`), cannot be about another part. A gateway that was asked for a refund may also
-- tell of it, and by its own name, which is kept.
create function is_told_again(
    voucher bigint, transaction text, returned bigint, kind smallint, part text, whole bigint, rest bigint
)
returns boolean
language plpgsql
as $$
declare
    known integer;
begin
    if exists (select from returns b where b.transaction_id = transaction and b.voucher_id = voucher
                                      and part in (b.refund_id, b.return_id)) then
        return true;
    end if;
    select b.number into known from returns b
    where b.transaction_id = transaction and b.voucher_id = voucher
      and ((b.done_by = kind and part is null)
           or (b.done_by = as_we_asked() and kind = by_the_gateway_itself() and b.return_id is null and (part is null or b.undone_at is null)))
      and (returned >= whole or returned > rest)
      and (b.amount = returned
           -- It completed what a notice of the whole amount is about.
           or (returned = whole and rest <= 0 and b.undone_at is null and not exists (
                   select from returns later where later.transaction_id = transaction and later.voucher_id = voucher
                                               and later.number > b.number and later.undone_at is null)))
    order by b.number desc limit 1;
    if known is null then
        return false;
    end if;
    update returns b set return_id = part
    where b.transaction_id = transaction and b.voucher_id = voucher and b.number = known and b.return_id is null and part is not null;
    return true;
end
$$;

-- The name by which the gateway is asked for a payment's money, or was asked for it last, unless a return has it. Then what the gateway
-- gave back by itself, as it seems, is what it was asked for: its notice comes before its answer, or instead of it.
create function asked_name(voucher bigint, money payments) returns text
language plpgsql
as $$
declare
    asked text := (select refund_name(voucher, r.order_id, r.number, r.try) from refunds r
                   where r.order_id = money.order_id and r.number = money.number and r.voucher_id = voucher);
begin
    return case when not exists (select from returns b where b.transaction_id = money.transaction_id and b.voucher_id = voucher
                                                        and b.refund_id = asked) then asked end;
end
$$;

create function insert_return(
    voucher bigint, own bigint, transaction text, returned bigint, kind smallint, refund_id text, return_id text, at timestamptz,
    is_early boolean
)
returns void
language plpgsql
as $$
declare
    number integer := 1 + coalesce((select max(b.number) from returns b
                                    where b.transaction_id = transaction and b.voucher_id = voucher), 0);
begin
    insert into returns (voucher_id, order_id, transaction_id, number, amount, done_by, returned_at, refund_id, return_id,
                         is_early)
    values (voucher, own, transaction, number, returned, kind, at, refund_id, return_id, is_early);
end
$$;

-- Writes that so much of a payment's money went back, and how (`kind`). Returns `part_returned`, `returned` (nothing is left), or
-- `returned_twice`: more went back than was left. The caller has locked the sale and the order.
create function write_return(
    voucher bigint, money payments, returned bigint, kind smallint, refund_id text, return_id text, actor_id bigint, at timestamptz
)
returns text
language plpgsql
as $$
declare
    rest bigint;
begin
    perform insert_return(voucher, money.order_id, money.transaction_id, returned, kind, refund_id, return_id, at, false);
    rest := follow_returns(voucher, money, kind, actor_id, at);
    return case when rest > 0 then 'part_returned' when rest = 0 then 'returned' else 'returned_twice' end;
end
$$;

-- Does what follows from `returns` for a payment's refund and order, and returns what is left of the money. If nothing is, the
-- refund is done: the gateway is not asked for it any more. If the money had paid the order, the order is refunded, and its
-- voucher is on sale again; an order that is used stays used, for good, and is marked as charged back. The caller has locked the sale
-- and the order.
create function follow_returns(voucher bigint, money payments, kind smallint, actor_id bigint, at timestamptz) returns bigint
language plpgsql
as $$
declare
    rest bigint := left_of(voucher, money.transaction_id, money.paid_amount);
    bought orders%rowtype;
begin
    if rest <= 0 then
        update refunds r set status = refund_done(), done_at = at
        where r.order_id = money.order_id and r.number = money.number and r.voucher_id = voucher and r.status = refund_waiting();
        perform end_message(voucher, money.order_id, 'refund', money.number);
    end if;
    if money.status = payment_applied() then
        update orders o set returned_amount = money.paid_amount - rest
        where o.id = money.order_id and o.voucher_id = voucher
        returning o.* into bought;
        if rest <= 0 and bought.status <> order_refunded() and bought.charged_back_at is null then
            perform write_step(voucher, bought.id,
                case when bought.status = order_used() then 'charged_back'
                     when kind = outside_the_gateway() then 'settled_outside' else 'refunded' end,
                bought.status, case kind when outside_the_gateway() then actor_administrator() else actor_gateway() end,
                actor_id, at);
        end if;
    end if;
    return rest;
end
$$;

-- The name by which the gateway is asked, for the first, second, ... time, to give back the money of a payment.
create function refund_name(voucher bigint, own bigint, payment_number integer, try integer) returns text
language sql immutable
as $$ select voucher::text || '.' || own::text || '.' || payment_number::text || case when try > 1 then '-' || try::text else '' end $$;

-- The gateway, which was asked for a refund by this name, has given so much back. Returns `repeated` (it was known, or has failed
-- meanwhile), or what `write_return` does; `returned_twice`: the money went back another way while the gateway was asked.
create function finish_refund(voucher bigint, own bigint, payment_number integer, given_back text, returned bigint) returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    asked integer;
    money payments%rowtype;
    outcome text;
begin
    perform lock_sale(voucher);
    perform from orders o where o.id = own and o.voucher_id = voucher for no key update;
    at := sale_time();
    select r.try into asked
    from refunds r where r.order_id = own and r.number = payment_number and r.voucher_id = voucher for no key update;
    select p.* into money from payments p where p.order_id = own and p.number = payment_number and p.voucher_id = voucher;
    if asked is null or given_back <> refund_name(voucher, own, payment_number, asked)
       or exists (select from returns b where b.transaction_id = money.transaction_id and b.voucher_id = voucher
                                         and b.refund_id = given_back) then
        return 'repeated';
    end if;
    outcome := write_return(voucher, money, returned, as_we_asked(), given_back, null, null, at);
    if outcome = 'part_returned' then
        perform ask_again(voucher, own, payment_number, null, at);
    end if;
    return outcome;
end
$$;

-- The gateway is asked for what is left of a payment's money by another name, after a pause: it may fail again at once. The message
-- counts as tried, so that a server that sends it now does not end it. The caller has locked the sale and the order.
create function ask_again(voucher bigint, own bigint, payment_number integer, why text, at timestamptz) returns void
language plpgsql
as $$
declare
    asked integer;
    due timestamptz;
begin
    insert into refunds (voucher_id, order_id, number, reason, created_at)
    values (voucher, own, payment_number, 'refund_failed', at)
    on conflict (voucher_id, order_id, number) do update
    set status = refund_waiting(), done_at = null, try = refunds.try + 1,
        created_at = case when refunds.done_at is null then refunds.created_at else excluded.created_at end
    returning refunds.try into asked;
    due := at + make_interval(secs => least(300, 2 ^ least(asked - 1, 9)));
    insert into messages (voucher_id, order_id, kind, number, channel, next_attempt_at, last_error, created_at)
    values (voucher, own, 'refund', payment_number, to_gateway(), due, why, at)
    on conflict (voucher_id, order_id, kind, number) do update
    set next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error, attempts = messages.attempts + 1;
end
$$;

-- The gateway says that money which went back is ours again: a refund failed after all (`kind` is as in `return_payment`: by the
-- gateway itself), or we won a charge-back. `part` names the return, by our name or the gateway's. A charge-back without a name is
-- all of the transaction's. Returns `unknown` (there is no such payment), `too_early` (no such return is known), `other_amount` (so
-- much did not go back; in these cases nothing was changed), `repeated`, `refund_waits` (the refund was not taken as done: it is
-- asked for by another name), `refund_failed` or `charge_back_won`.
--
-- If a refund failed, the buyer is owed the money: the refund waits again, and an order that was refunded is refunding again. If we
-- won a charge-back, the order keeps its money, also one that is refunded; money that never paid an order is owed in either case.
create function undo_return(
    voucher bigint, own bigint, payment_number integer, transaction text, undone bigint, kind smallint, part text
)
returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    payment payments%rowtype;
    money payments%rowtype;
    known integer[];
    standing bigint;
begin
    payment := lock_payment(voucher, own, payment_number, transaction);
    if payment.number is null then
        return 'unknown';
    end if;
    select p.* into money from payments p where p.transaction_id = transaction and p.voucher_id = voucher for no key update;
    perform lock_sale(voucher);
    perform from orders o where o.id in (own, money.order_id) and o.voucher_id = voucher order by o.id for no key update;
    at := sale_time();
    select array_agg(b.number), sum(b.amount) filter (where b.undone_at is null) into known, standing
    from returns b
    where b.transaction_id = transaction and b.voucher_id = voucher
      and b.done_by = any (case when kind = by_charge_back() then array[kind] else array[as_we_asked(), kind] end)
      and (part in (b.refund_id, b.return_id) or (part is null and kind = by_charge_back()));
    if known is null then
        return fail_refund(voucher, money, part, at);
    -- A charge-back that was won and told as new money (`payment_outcome`) is not won again.
    elsif standing is null or (kind = by_charge_back() and money.reason = 'charge_back_won') then
        return 'repeated';
    elsif undone not in (standing, coalesce(money.paid_amount, standing)) then
        return 'other_amount';
    end if;
    update returns b set undone_at = at
    where b.transaction_id = transaction and b.voucher_id = voucher and b.number = any (known) and b.undone_at is null;
    if money.number is not null then
        perform follow_undone(voucher, money, kind, part, at);
    end if;
    return case when kind = by_charge_back() then 'charge_back_won' else 'refund_failed' end;
end
$$;

-- The same of a refund that is not known to be done, if `part` is its name. Its name of before has failed before.
create function fail_refund(voucher bigint, money payments, part text, at timestamptz) returns text
language plpgsql
as $$
declare
    refund refunds%rowtype;
begin
    select r.* into refund
    from refunds r where r.order_id = money.order_id and r.number = money.number and r.voucher_id = voucher for no key update;
    if refund.status = refund_waiting() and part = refund_name(voucher, refund.order_id, refund.number, refund.try) then
        perform ask_again(voucher, refund.order_id, refund.number, 'the refund ' || part || ' failed', at);
        return 'refund_waits';
    end if;
    return case when part in (select refund_name(voucher, refund.order_id, refund.number, n) from generate_series(1, refund.try) n)
                then 'repeated' else 'too_early' end;
end
$$;

-- Does what follows for a payment's order and refund once money that went back is ours again.
create function follow_undone(voucher bigint, money payments, kind smallint, part text, at timestamptz) returns void
language plpgsql
as $$
declare
    rest bigint := follow_returns(voucher, money, kind, null, at);
    bought orders%rowtype;
    step text;
begin
    if rest <= 0 then
        return; -- It went back another way, too.
    end if;
    if money.status = payment_applied() then
        select o.* into bought from orders o where o.id = money.order_id and o.voucher_id = voucher;
        step := case when bought.charged_back_at is not null then 'charge_back_won'
                     -- Unless we had begun to give it back: then it is owed again.
                     when bought.status = order_refunded() and kind = by_charge_back() and not exists (
                         select from refunds r
                         where r.order_id = money.order_id and r.number = money.number and r.voucher_id = voucher) then 'charge_back_won'
                     when bought.status = order_refunded() then 'refund_failed' end;
        if step is not null then
            perform write_step(voucher, bought.id, step, bought.status, actor_gateway(), null, at);
        end if;
    end if;
    if (step = 'refund_failed' or money.status = payment_given_back())
       and not exists (select from refunds r where r.order_id = money.order_id and r.number = money.number and r.voucher_id = voucher
                                              and r.status = refund_waiting()) then
        perform ask_again(voucher, money.order_id, money.number,
                          case when kind = by_the_gateway_itself() then 'the refund ' || part || ' failed' end, at);
    end if;
end
$$;

-- An administrator has given the money of an order that is being refunded back outside the gateway. Returns as
-- `cancel_order` does.
create function settle_refund(
    voucher bigint, own bigint, actor_id bigint, out refusal text, out order_status smallint
)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    money payments%rowtype;
begin
    perform lock_sale(voucher);
    select step.* into refusal, order_status from take_step(voucher, own, 'settled_outside') step;
    if refusal is not null then
        return;
    end if;
    select p.* into money
    from payments p where p.order_id = own and p.voucher_id = voucher and p.status = payment_applied();
    perform write_return(voucher, money, left_of(voucher, money.transaction_id, money.paid_amount), outside_the_gateway(),
                         null, null, actor_id, sale_time());
    order_status := order_refunded();
end
$$;

-- Up to which number the events are complete: each that has such a number is committed, and whoever looks now sees it. It asks a
-- second time for what it reached the first time; a caller does both.
--
-- Why nothing is missed that commits late: a number is drawn by a transaction that has its own number (xid) already, because
-- it has locked the row of an order or of a sale before. So if the sequence is read first, and a transaction gets its xid after that
-- (`waits_for`), each that drew one of the numbers up to then has a smaller xid. All of these have ended once the oldest that
-- is under way (`pg_snapshot_xmin`) is not smaller. (The `xmax` of a snapshot would not do: it is next to the greatest xid
-- that has *ended*, and so may be smaller than one that is under way.)
--
-- A transaction that writes elsewhere in these databases, and lasts long, holds the events up. An xid that no transaction
-- has had yet comes from another server, of which this database is a copy: nothing of it is under way here.
create function complete_events() returns bigint
language plpgsql
as $$
declare
    drawn bigint := (select case when s.is_called then s.last_value else 0 end from event_seq s);
    complete bigint := (select h.complete_to from event_horizon h);
    pending bigint;
    waits xid8;
begin
    if complete >= drawn then
        return complete;
    elsif pg_current_xact_id_if_assigned() is not null then
        raise exception 'the transaction of complete_events has written before';
    end if;
    -- This gives the transaction its xid, after the sequence was read.
    select h.reached, h.waits_for into pending, waits from event_horizon h for no key update;
    if waits > pg_snapshot_xmin(pg_current_snapshot()) and waits < pg_snapshot_xmax(pg_current_snapshot()) then
        return complete;
    end if;
    update event_horizon set complete_to = pending, reached = drawn, waits_for = pg_current_xact_id();
    return pending;
end
$$;

-- Up to `at_most` events with a number above `after` and up to `up_to`, in their order: what happened, read from the orders (the
-- purchase, number 0 of an order) and from the logs of steps. `takes_stock`: it may have left nothing to sell.
create function events_between(after bigint, up_to bigint, at_most bigint)
returns table (
    "position" bigint, voucher_id bigint, order_id bigint, number integer, kind text, at timestamptz, user_id bigint,
    status smallint, amount bigint, actor smallint, actor_id bigint, details jsonb, takes_stock boolean
)
language plpgsql
set enable_seqscan = off
as $$
begin
    return query
    (select o.seq, o.voucher_id, o.id, 0,
            case when o.amount = 0 then 'order.paid' when e.id is null then 'order.placed' else 'entry.offered' end,
            o.created_at, o.user_id, case o.amount when 0 then order_paid() else order_unpaid() end, o.amount,
            case when e.id is null then actor_buyer() else actor_time() end, case when e.id is null then o.user_id end,
            jsonb_strip_nulls(jsonb_build_object('pay_by', o.pay_by, 'entry_id', e.id)), true
     from orders o left join lateral (
         select x.id from entries x
         where x.voucher_id = o.voucher_id and x.user_id = o.user_id and x.order_id = o.id limit 1
     ) e on true
     where o.seq > after and o.seq <= up_to order by o.seq limit at_most)
    union all
    (select s.seq, s.voucher_id, s.order_id, s.number,
            'order.' || case when s.step = 'cancelled' and s.actor = actor_time() then 'expired' else s.step end,
            s.at, o.user_id, s.status_after, o.amount, s.actor, s.actor_id, '{}'::jsonb,
            exists (select from order_transitions() t where t.step = s.step and t.stock_change < 0)
     from order_steps s join orders o on o.id = s.order_id and o.voucher_id = s.voucher_id
     where s.seq > after and s.seq <= up_to order by s.seq limit at_most)
    union all
    (select s.seq, s.voucher_id, null, s.number,
            case s.step when 'entry_removed' then 'entry.removed' else 'voucher.' || s.step end,
            s.at, null, null, null, s.actor, s.actor_id, s.details, s.details ? 'initial_stock'
     from voucher_steps s where s.seq > after and s.seq <= up_to order by s.seq limit at_most)
    order by 1 limit at_most;
end
$$;

-- The sender of events has seen that stock was taken of a voucher, last by the event of the number `last`: if nothing is left,
-- and that was not written since, it is written, as an event of its own.
create function write_sold_out(voucher bigint, last bigint) returns void
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
begin
    if exists (select from seckill_vouchers s where s.voucher_id = voucher and s.stock > 0) then
        return; -- Most are not sold out: nobody waits for that.
    end if;
    perform lock_sale(voucher);
    if exists (select from seckill_vouchers s where s.voucher_id = voucher and s.stock = 0)
       and not exists (select from voucher_steps s where s.voucher_id = voucher and s.step = 'sold_out' and s.seq > last) then
        perform write_voucher_step(voucher, 'sold_out', '{}', actor_time(), null, sale_time());
    end if;
end
$$;

-- A row, whose ids are texts as everywhere in JSON.
create function with_text_ids(line jsonb) returns text
language sql immutable
as $$ select regexp_replace(line::text, '("(?:[a-z]+_)?id": )(\d+)', '\1"\2"', 'g') $$;

-- The orders, up to `at_most`, that `prune_sale` removes of a sale that was over by `long_ago`: those that are used, cancelled
-- or refunded, and ended before. It locks nothing.
--
-- What keeps an order: a refund that waits; money that went back since, or came again; a message that waits; and money that went
-- back before it was known to have come. Whatever `long_ago` is, an order that has a payment is kept for half a year after its
-- end: so long its money may come late, or be charged back.
create function ended_orders(voucher bigint, long_ago timestamptz, at_most bigint) returns bigint[]
language plpgsql
as $$
declare
    paid_long_ago timestamptz := least(long_ago, sale_time() - interval '180 days');
begin
    return array(
        select o.id from orders o
        where o.voucher_id = voucher and o.id > 0 and o.status in (order_used(), order_cancelled(), order_refunded())
          and exists (select from seckill_vouchers s where s.voucher_id = voucher and s.end_time < long_ago
                      and (s.cancelled_at is null or s.wound_up_at is not null))
          and o.updated_at < case when exists (select from payments p where p.voucher_id = voucher and p.order_id = o.id)
                                  then paid_long_ago else long_ago end
          and not exists (select from refunds r where r.voucher_id = voucher and r.order_id = o.id and r.status = refund_waiting())
          and not exists (select from messages m where m.voucher_id = voucher and m.order_id = o.id
                          and m.next_attempt_at is not null)
          and not exists (select from returns b where b.voucher_id = voucher and b.order_id = o.id
                          and (b.is_early or greatest(b.returned_at, b.undone_at) >= paid_long_ago))
        limit at_most);
end
$$;

-- Removes up to `at_most` of the orders that ended before `long_ago`, each with all that belongs to it; or, if no order is left, the
-- sale and the voucher; or, if these are gone, up to `at_most` entries. Returns the rows that it removed; none: nothing is left to
-- remove. A used order is counted in `pruned`, so that an audit holds after each call. Whatever changes an order that has ended
-- locks the sale before.
create function prune_sale(voucher bigint, long_ago timestamptz, at_most bigint)
returns table (removed_from text, line text)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    ended bigint[];
begin
    perform lock_sale(voucher);
    ended := ended_orders(voucher, long_ago, at_most);
    return query
    with sale as (
        select from seckill_vouchers s
        where s.voucher_id = voucher and s.end_time < long_ago and (s.cancelled_at is null or s.wound_up_at is not null)
    ),
    o as (delete from orders x where x.voucher_id = voucher and x.id = any (ended) returning x.*),
    t as (delete from order_steps x where x.voucher_id = voucher and x.order_id = any (ended) returning x.*),
    p as (delete from payments x where x.voucher_id = voucher and x.order_id = any (ended) returning x.*),
    r as (delete from refunds x where x.voucher_id = voucher and x.order_id = any (ended) returning x.*),
    m as (delete from messages x where x.voucher_id = voucher and x.order_id = any (ended) returning x.*),
    b as (delete from returns x where x.voucher_id = voucher and x.order_id = any (ended) returning x.*),
    counted as (
        update seckill_vouchers s set pruned = pruned + (select count(*) from o where status = order_used())
        where s.voucher_id = voucher and exists (select from o where status = order_used())
    ), s as (
        delete from seckill_vouchers x
        where x.voucher_id = voucher and exists (select from sale)
          and not exists (select from orders a where a.voucher_id = voucher and a.id > 0)
          and not exists (select from payments a where a.voucher_id = voucher)
          and not exists (select from returns a where a.voucher_id = voucher)
        returning x.*
    ),
    v as (delete from vouchers x using s where x.id = voucher and s.voucher_id = x.id returning x.*),
    l as (delete from voucher_steps x using s where x.voucher_id = voucher and s.voucher_id = x.voucher_id returning x.*),
    e as (
        delete from entries x
        where x.voucher_id = voucher and not exists (select from vouchers a where a.id = voucher)
          and x.id = any (array(select a.id from entries a where a.voucher_id = voucher limit at_most))
        returning x.*
    )
    select 'orders', with_text_ids(to_jsonb(o)) from o union all select 'order_steps', with_text_ids(to_jsonb(t)) from t
    union all select 'payments', with_text_ids(to_jsonb(p)) from p union all select 'refunds', with_text_ids(to_jsonb(r)) from r
    union all select 'messages', with_text_ids(to_jsonb(m)) from m
    union all select 'returns', with_text_ids(to_jsonb(b)) from b
    union all select 'seckill_vouchers', with_text_ids(to_jsonb(s)) from s
    union all select 'voucher_steps', with_text_ids(to_jsonb(l)) from l
    union all select 'vouchers', with_text_ids(to_jsonb(v)) from v union all select 'entries', with_text_ids(to_jsonb(e)) from e;
end
$$;
