-- The life of an order after the purchase: what a voucher costs, payments, refunds, and sales that change.
--
-- An order of a free voucher is paid at once, and all that this costs it is two indexes more.
--
-- It is one block, because Citus sends the text of the whole message to its workers where a message has
-- several statements, and they refuse it. In a block each statement is a text of its own.
do $migration$
begin
perform set_config('citus.multi_shard_modify_mode', 'sequential', true);

alter table vouchers
    add column subtitle text not null default '',
    -- The conditions of the voucher, for people.
    add column terms text not null default '',
    -- What the voucher is worth, in the currency's smallest unit, for people. Null: not said.
    add column value bigint,
    -- Once the voucher was edited: the earliest beginning and the latest end that its sale ever had.
    -- An audit holds the orders of before the edit against them.
    add column earliest_begin_time timestamptz,
    add column latest_end_time timestamptz;
alter table vouchers add constraint subtitle_has_a_limit check (length(subtitle) <= 200);
alter table vouchers add constraint terms_have_a_limit check (length(terms) <= 2000);
alter table vouchers add constraint value_is_an_amount check (value between 0 and 1000000000000);

alter table seckill_vouchers
    -- Of orders to come, in the currency's smallest unit. 0: the voucher is free.
    add column price bigint not null default 0,
    -- An order that is not paid after so many seconds is cancelled.
    add column pay_within_s integer not null default 900,
    add column paused boolean not null default false,
    -- Moves with every change that is not a plain sale: an edit, a pause, a restock, a voucher that comes
    -- back. What a server remembers of a sale is true of one revision only. (A stock that went 0, 1, 0
    -- between two looks is not the same sale.)
    add column revision bigint not null default 1;
alter table seckill_vouchers
    add constraint price_is_an_amount check (price between 0 and 1000000000000);
alter table seckill_vouchers
    add constraint pay_within_is_sensible check (pay_within_s between 1 and 2592000);

alter table orders
    -- The price when the order was placed.
    add column amount bigint not null default 0,
    -- Null where there is nothing to pay.
    add column pay_by timestamptz,
    add column cancelled_at timestamptz,
    -- 1 the buyer, 2 an administrator, 3 time
    add column cancelled_by smallint;
alter table orders add constraint ids_are_positive check (id > 0);
alter table orders add constraint cancelled_by_is_known check (cancelled_by between 1 and 3);

-- Until now every voucher was free, and no order was ever marked as paid. Servers of 0.1.0, which write no
-- state, write this one until the next file gives them another function.
alter table orders alter column status set default 2;
update orders set status = 2, paid_at = created_at where status = 1;

-- The last line of defence: one live order (not cancelled, not refunded) a user and voucher. It begins
-- with the voucher, so it also finds the owners of one voucher and reads nothing else.
create unique index orders_one_live_per_user on orders (voucher_id, user_id)
    where status in (1, 2, 3, 5);
alter table orders drop constraint orders_one_per_user;
-- A buyer's own orders, newest first.
create index orders_of_user on orders (user_id, id);
-- All orders of one voucher, newest first: an administrator's list, an audit. The condition holds for every
-- order, and only a query that states it can use the index: a look-up of one buyer's order never does,
-- whatever the planner takes for cheap while the table is empty.
create index orders_of_voucher on orders (voucher_id, id) where id > 0;
drop index orders_by_voucher;
-- Orders that may have to be cancelled. No order of a free voucher is in it.
create index orders_unpaid on orders (pay_by) where status = 1;

-- A payment that a buyer began, and what the payment gateway said of it.
create table payments (
    voucher_id      bigint      not null,
    order_id        bigint      not null,
    -- The first, second, ... payment of the order. The gateway knows it as `voucher.order.number`.
    number          integer     not null check (number > 0),
    -- What was asked for.
    amount          bigint      not null check (amount > 0),
    -- 1 pending, 2 applied to its order, 3 failed, 4 confirmed and given back
    status          smallint    not null default 1 check (status between 1 and 4),
    -- Where the buyer pays; null until the gateway has said so.
    pay_url         text,
    -- The gateway's own name of the money that it took.
    transaction_id  text,
    -- What it took, and when it was confirmed to us.
    paid_amount     bigint      check (paid_amount > 0),
    confirmed_at    timestamptz,
    -- Why it was given back.
    reason          text,
    created_at      timestamptz not null,
    primary key (order_id, number, voucher_id),
    constraint money_has_a_transaction
        check ((status in (2, 4)) = (transaction_id is not null and paid_amount is not null))
);

-- Money on its way back: one refund a payment, so that nobody gets it back twice. Servers work it off.
create table refunds (
    voucher_id       bigint      not null,
    order_id         bigint      not null,
    -- The payment's.
    number           integer     not null,
    transaction_id   text        not null,
    amount           bigint      not null check (amount > 0),
    reason           text        not null,
    -- 1 waiting, 2 done
    status           smallint    not null default 1 check (status between 1 and 2),
    attempts         integer     not null default 0,
    -- No server tries before. A server that tries moves it: its claim ends by itself.
    next_attempt_at  timestamptz not null,
    last_error       text,
    created_at       timestamptz not null,
    done_at          timestamptz,
    primary key (order_id, number, voucher_id)
);
-- The same money is applied once, and given back once.
create unique index payments_one_per_transaction on payments (transaction_id, voucher_id)
    where transaction_id is not null;
create index refunds_waiting on refunds (next_attempt_at) where status = 1;

-- Money that the gateway confirmed for a payment that is not ours: kept, and shown to administrators.
create table unmatched_payments (
    transaction_id  text        primary key,
    payment_id      text        not null,
    amount          bigint      not null,
    received_at     timestamptz not null
);
end
$migration$;
