-- The functions of the life of an order: what places orders, what cancels them, and what moves money.
--
-- Each step is one conditional update whose precondition is the state that it leaves, by the database's
-- clock. Each function is about one voucher, so that it runs as a whole on the database server that has
-- the voucher (`seckill migrate --distribute`).
--
-- Locks are taken in one order, so that no two calls wait for each other: the payment, the voucher's row,
-- the order. Whatever changes the stock locks the voucher's row before it touches an order: `sell` holds
-- that row while it waits for the unique index, which waits for whoever changes the same buyer's order.
--
-- The clock is read into a variable: Citus takes no function that may change its answer in an `update`.
--
-- The settings are those of 0002_functions.sql, for the reasons given there. The steps after the purchase wait
-- for a row half as long, because it may be twice: for the session that waits before them, and for the one
-- that holds the row.

-- Places an order of `voucher` for each of `users`, one or many, with the id and the time at the same
-- place of the other arrays. All of them are one transaction. Every strategy calls it.
--
-- It returns a row for each of `ids` that has no new order, and why: `already_bought` (with the id of the
-- live order), `sold_out`, `sale_not_started`, `sale_ended`, `sale_paused`, `voucher_not_found`, or
-- `id_taken` (the id is another order's). For each order of a voucher that has a price it returns
-- `ordered`, the amount, and until when to pay. Orders of a free voucher are paid at once and not named:
-- they cost what they cost before there were prices. The buyers who come first in the arrays get the last
-- vouchers.
--
-- Why it cannot oversell: a call takes from the stock either by one update that requires `stock >= n`,
-- or, in the exact case, by no more than the stock that it read after it had locked the row. Both keep
-- the row locked until the commit, so every other call for this voucher waits, and then sees what was
-- committed. If the orders cannot be written, what was taken is rolled back with them.
--
-- Why it cannot sell twice: `orders_one_live_per_user`. A second live order of a buyer is an error in the
-- usual case, which takes back the whole of it. In the exact case the call looks for live orders by a
-- statement that begins after the row is locked: nobody else writes orders of this voucher then, so it
-- misses none.
--
-- Why it sells at no other time: the clock is read after the row is locked. A call that waited for the
-- row past the end of the sale, or for its pause, places nothing. So a server that locks the row then and
-- finds an order missing knows that the order will never come (src/purchase/owners.rs).
--
-- Why a caller that lost the answer may ask again: the same call, with the same ids and times, places
-- no order twice and counts those of the first call as placed, also where they were cancelled meanwhile.
-- The time tells them from an order of another process that drew the same id for the same user, because
-- Redis had lost the counter.
create function sell(voucher bigint, ids bigint[], users bigint[], times timestamptz[])
returns table (order_id bigint, reason text, earlier_id bigint, to_pay bigint, until timestamptz)
language plpgsql
set enable_seqscan = off
set lock_timeout = '600ms'
as $$
declare
    sale record;
    judged_at timestamptz;
    due timestamptz;
    available integer;
    placed integer;
begin
    -- The usual case: there is enough for all, nobody has a live order, and the sale is on.
    begin
        update seckill_vouchers set stock = stock - cardinality(ids)
        where voucher_id = voucher and stock >= cardinality(ids) and not paused
        returning begin_time, end_time, price, pay_within_s into sale;
        if found then
            judged_at := sale_time();
            if judged_at < sale.begin_time or judged_at >= sale.end_time then
                raise sqlstate 'SK001'; -- takes the update back
            end if;
            if sale.price = 0 then
                insert into orders (id, user_id, voucher_id, status, created_at, paid_at, updated_at)
                select id, user_id, voucher, 2, at, at, at
                from unnest(ids, users, times) as buyer (id, user_id, at);
                return;
            end if;
            due := judged_at + make_interval(secs => sale.pay_within_s);
            insert into orders (id, user_id, voucher_id, status, amount, pay_by, created_at, updated_at)
            select id, user_id, voucher, 1, sale.price, due, at, at
            from unnest(ids, users, times) as buyer (id, user_id, at);
            return query select id, 'ordered', null::bigint, sale.price, due from unnest(ids) id;
            return;
        end if;
    exception
        when unique_violation or sqlstate 'SK001' then null; -- which takes the update back, too
    end;

    -- The exact case: somebody has a live order, there is not enough for all, or the sale is not on. An
    -- error from here on is the caller's. `sale.stock` is null where there is no such voucher.
    select stock, begin_time, end_time, price, pay_within_s, paused into sale
    from seckill_vouchers where voucher_id = voucher
    for no key update;
    judged_at := sale_time();
    due := case when sale.price > 0 then judged_at + make_interval(secs => sale.pay_within_s) end;
    available := case
        when judged_at >= sale.begin_time and judged_at < sale.end_time and not sale.paused
        then sale.stock
        else 0
    end;

    -- The look-ups are scalar subqueries: each goes by an index, whatever the size of the table was
    -- when the plan was made.
    insert into orders
        (id, user_id, voucher_id, status, amount, pay_by, created_at, paid_at, updated_at)
    select id, user_id, voucher, case when due is null then 2 else 1 end, sale.price, due,
           at, case when due is null then at end, at
    from (
        select distinct on (user_id) *
        from unnest(ids, users, times) with ordinality as buyer (id, user_id, at, place)
        where (select earlier.id from orders earlier
               where earlier.voucher_id = voucher and earlier.user_id = buyer.user_id
                 and earlier.status in (1, 2, 3, 5)) is null
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
               when placed_by_this_call then 'ordered'
               when earlier is not null then 'already_bought'
               when sale.stock is null then 'voucher_not_found'
               when judged_at < sale.begin_time then 'sale_not_started'
               when judged_at >= sale.end_time then 'sale_ended'
               when placed_by_this_call = false then 'id_taken'
               when sale.paused then 'sale_paused'
               else 'sold_out'
           end,
           case when placed_by_this_call then null else earlier end,
           case when placed_by_this_call then own_amount end,
           case when placed_by_this_call then own_pay_by end
    from (
        select buyer.id,
               (select own.id from orders own
                where own.voucher_id = voucher and own.user_id = buyer.user_id
                  and own.status in (1, 2, 3, 5)) as earlier,
               -- True where this call, or an earlier one with the same ids and times, placed the order;
               -- false where another order has the id; null where no order has it.
               (select (taken.user_id, taken.created_at) = (buyer.user_id, buyer.at)
                from orders taken
                where taken.id = buyer.id and taken.voucher_id = voucher) as placed_by_this_call,
               (select taken.amount from orders taken
                where taken.id = buyer.id and taken.voucher_id = voucher) as own_amount,
               (select taken.pay_by from orders taken
                where taken.id = buyer.id and taken.voucher_id = voucher) as own_pay_by
        from unnest(ids, users, times) as buyer (id, user_id, at)
    ) buyers
    where placed_by_this_call is not true or own_pay_by is not null;
end
$$;

-- The same for servers of 0.1.0, which know no prices: while a new release is rolled out they sell on.
create or replace function place_orders(
    voucher bigint, ids bigint[], users bigint[], times timestamptz[]
)
returns table (order_id bigint, reason text, earlier_id bigint)
language sql
as $$
    select sold.order_id,
           case sold.reason when 'sale_paused' then 'sale_ended' else sold.reason end,
           sold.earlier_id
    from sell(voucher, ids, users, times) sold
    where sold.reason <> 'ordered'
$$;

-- The live orders that some buyers have of one voucher.
create or replace function orders_of_buyers(voucher bigint, buyers bigint[])
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

-- Cancels an unpaid order: `canceller` is 1 for the buyer, 2 for an administrator. Its voucher is on sale
-- again. Returns the status that the order had: it was cancelled where that is 1 (unpaid). Null: there is no
-- such order.
create function cancel_order(voucher bigint, own bigint, canceller smallint) returns smallint
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
begin
    perform from seckill_vouchers where voucher_id = voucher for no key update;
    at := sale_time();
    update orders set status = 4, cancelled_at = at, cancelled_by = canceller, updated_at = at
    where id = own and voucher_id = voucher and status = 1;
    if not found then
        return (select status from orders where id = own and voucher_id = voucher);
    end if;
    update seckill_vouchers set stock = stock + 1, revision = revision + 1 where voucher_id = voucher;
    return 1;
end
$$;

-- Cancels those of `ids`, orders of `voucher`, whose time to pay is over, and puts their vouchers back on
-- sale. Returns how many. Orders that somebody else is changing right now are left for the next time.
-- `status < 2` is `status = 1` in other words: so the planner cannot go by the index of all unpaid orders, which
-- it takes for the cheapest while the table has no statistics, and which a backlog makes long.
create function expire_orders(voucher bigint, ids bigint[]) returns bigint
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    expired bigint;
begin
    perform from seckill_vouchers where voucher_id = voucher for no key update;
    at := sale_time();
    update orders set status = 4, cancelled_at = at, cancelled_by = 3, updated_at = at
    where voucher_id = voucher
      and id = any (array(
          select due.id from orders due
          where due.id = any (ids) and due.voucher_id = voucher
            and due.status < 2 and due.pay_by <= at
          for no key update skip locked));
    get diagnostics expired = row_count;
    update seckill_vouchers set stock = stock + expired, revision = revision + 1
    where voucher_id = voucher and expired > 0;
    return expired;
end
$$;

-- Begins a payment of `buyer`'s order, or finds the one that is pending. Returns the status that the order
-- has; where that is 1 (unpaid), also the payment. No row: there is no such order of this buyer. An order
-- whose time is over is cancelled (4), also where no server has come to write it yet.
create function open_payment(voucher bigint, own bigint, buyer bigint)
returns table (
    order_status smallint, payment_number integer, to_pay bigint, until timestamptz, url text
)
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz;
    asked record;
    pending record;
begin
    select o.status, o.amount, o.pay_by into asked
    from orders o where o.id = own and o.voucher_id = voucher and o.user_id = buyer
    for no key update;
    if not found then
        return;
    end if;
    at := sale_time();
    if asked.status <> 1 or asked.pay_by <= at then
        return query select
            case asked.status when 1 then 4::smallint else asked.status end,
            null::integer, null::bigint, asked.pay_by, null::text;
        return;
    end if;
    select p.number, p.pay_url into pending
    from payments p where p.order_id = own and p.voucher_id = voucher and p.status = 1;
    if not found then
        insert into payments (voucher_id, order_id, number, amount, created_at)
        select voucher, own, coalesce(max(p.number), 0) + 1, asked.amount, at
        from payments p where p.order_id = own and p.voucher_id = voucher
        returning payments.number, payments.pay_url into pending;
    end if;
    return query select asked.status, pending.number, asked.amount, asked.pay_by, pending.pay_url;
end
$$;

-- What the gateway says of a payment: it took `paid` in the transaction of this name, or it failed.
-- Returns what became of it: `unknown` (there is no such payment), `repeated` (it was said before),
-- `failed`, `applied`, `revived` (applied to an order that time had cancelled), or why the money goes back:
-- `wrong_amount`, `order_cancelled`, `order_paid`. Money that goes back has its refund when this returns.
--
-- The one decision about money that comes too late: an order that *time* has cancelled is revived if one
-- voucher is left and its buyer has no other live order of it. The buyer paid for what is still there, so
-- no promise is broken. An order that a person has cancelled stays so, and the money goes back: a person
-- said so, and may have been told so. Whether the sale is over or paused does not matter: the buyer bought
-- in time.
create function settle_payment(
    voucher bigint, own bigint, payment_number integer, transaction text, paid bigint, succeeded boolean
)
returns text
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz := sale_time();
    asked record;
    verdict text;
begin
    -- Of two notifications at once, the second waits here and finds what the first has written.
    select p.amount, p.status into asked
    from payments p
    where p.order_id = own and p.number = payment_number and p.voucher_id = voucher
    for no key update;
    if not found then
        return 'unknown';
    end if;
    if not succeeded then
        update payments set status = 3
        where order_id = own and number = payment_number and voucher_id = voucher and status = 1;
        return case when found then 'failed' else 'repeated' end;
    end if;
    -- Also where the same money was said to be for another order of the voucher: it pays for one.
    if exists (select from payments p
               where p.transaction_id = transaction and p.voucher_id = voucher) then
        return 'repeated';
    end if;

    if paid <> asked.amount then
        verdict := 'wrong_amount';
    else
        -- Where the update had to wait for another change of the order, it keeps the order locked though it
        -- changed nothing. The exception takes the lock back, before the voucher's row is asked for.
        begin
            update orders set status = 2, paid_at = at, updated_at = at
            where id = own and voucher_id = voucher and status = 1;
            if not found then
                raise sqlstate 'SK002';
            end if;
            verdict := 'applied';
        exception
            when sqlstate 'SK002' then null;
        end;
        if verdict is null then
            perform from seckill_vouchers where voucher_id = voucher for no key update;
            update orders late
            set status = 2, paid_at = at, updated_at = at,
                cancelled_at = null, cancelled_by = null
            where late.id = own and late.voucher_id = voucher
              and late.status = 4 and late.cancelled_by = 3
              and (select s.stock from seckill_vouchers s where s.voucher_id = voucher) > 0
              and not exists (select from orders live
                              where live.voucher_id = voucher and live.user_id = late.user_id
                                and live.status in (1, 2, 3, 5));
            if found then
                update seckill_vouchers set stock = stock - 1, revision = revision + 1
                where voucher_id = voucher;
                verdict := 'revived';
            else
                select case when o.status = 4 then 'order_cancelled' else 'order_paid' end into verdict
                from orders o where o.id = own and o.voucher_id = voucher;
            end if;
        end if;
    end if;

    if asked.status in (1, 3) then
        update payments
        set status = case when verdict in ('applied', 'revived') then 2 else 4 end,
            transaction_id = transaction, paid_amount = paid, confirmed_at = at,
            reason = case when verdict not in ('applied', 'revived') then verdict end
        where order_id = own and number = payment_number and voucher_id = voucher;
    else
        -- The gateway took money twice for one payment: the second is a payment of its own. Its number is
        -- the next one: `open_payment` takes numbers, too, while it holds the order.
        perform from orders o where o.id = own and o.voucher_id = voucher for no key update;
        insert into payments (voucher_id, order_id, number, amount, status, transaction_id,
                              paid_amount, confirmed_at, reason, created_at)
        select voucher, own, max(p.number) + 1, asked.amount,
               case when verdict in ('applied', 'revived') then 2 else 4 end,
               transaction, paid, at,
               case when verdict not in ('applied', 'revived') then verdict end, at
        from payments p where p.order_id = own and p.voucher_id = voucher
        returning payments.number into payment_number;
    end if;
    if verdict not in ('applied', 'revived') then
        insert into refunds (voucher_id, order_id, number, transaction_id, amount, reason,
                             next_attempt_at, created_at)
        values (voucher, own, payment_number, transaction, paid, verdict, at, at);
    end if;
    return verdict;
end
$$;

-- Begins to give a paid order's money back. An order that cost nothing is refunded at once, and its voucher
-- is on sale again. Returns the status that the order had: it is being refunded where that is 2 (paid).
-- Null: there is no such order.
create function refund_order(voucher bigint, own bigint) returns smallint
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz := sale_time();
    money record;
begin
    update orders set status = 5, updated_at = at
    where id = own and voucher_id = voucher and status = 2 and amount > 0;
    if found then
        select p.number, p.transaction_id, p.paid_amount into strict money
        from payments p where p.order_id = own and p.voucher_id = voucher and p.status = 2;
        insert into refunds (voucher_id, order_id, number, transaction_id, amount, reason,
                             next_attempt_at, created_at)
        values (voucher, own, money.number, money.transaction_id, money.paid_amount, 'refund',
                at, at);
        return 2;
    end if;
    -- Not further with an order that costs something: the update may have locked it.
    if exists (select from orders where id = own and voucher_id = voucher and amount > 0) then
        return (select status from orders where id = own and voucher_id = voucher);
    end if;
    perform from seckill_vouchers where voucher_id = voucher for no key update;
    update orders set status = 6, refunded_at = at, updated_at = at
    where id = own and voucher_id = voucher and status = 2 and amount = 0;
    if found then
        update seckill_vouchers set stock = stock + 1, revision = revision + 1
        where voucher_id = voucher;
        return 2;
    end if;
    return (select status from orders where id = own and voucher_id = voucher);
end
$$;

-- The gateway has given the money of a payment back. An order that was being refunded is refunded, and its
-- voucher is on sale again. Returns whether the refund was still waiting.
create function finish_refund(voucher bigint, own bigint, payment_number integer) returns boolean
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz := sale_time();
begin
    perform from seckill_vouchers where voucher_id = voucher for no key update;
    update refunds set status = 2, done_at = at, last_error = null
    where order_id = own and number = payment_number and voucher_id = voucher and status = 1;
    if not found then
        return false;
    end if;
    update orders set status = 6, refunded_at = at, updated_at = at
    where id = own and voucher_id = voucher and status = 5
      and exists (select from payments p
                  where p.order_id = own and p.number = payment_number and p.voucher_id = voucher
                    and p.status = 2);
    if found then
        update seckill_vouchers set stock = stock + 1, revision = revision + 1
        where voucher_id = voucher;
    end if;
    return true;
end
$$;

-- Redeems a paid order. Returns the status that the order had: it was redeemed where that is 2 (paid).
-- Null: there is no such order.
create function redeem_order(voucher bigint, own bigint) returns smallint
language plpgsql
set enable_seqscan = off
set lock_timeout = '350ms'
as $$
declare
    at timestamptz := sale_time();
begin
    update orders set status = 3, used_at = at, updated_at = at
    where id = own and voucher_id = voucher and status = 2;
    if found then
        return 2;
    end if;
    return (select status from orders where id = own and voucher_id = voucher);
end
$$;

-- Orders that servers of 0.1.0 placed since the file before.
update orders set paid_at = created_at where status = 2 and paid_at is null;
