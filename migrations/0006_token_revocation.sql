-- The sessions of a user end all at once: a token that was issued before this instant is void.

alter table users add column tokens_not_before timestamptz;

-- Every server asks once a second for what has changed lately. Few users have a value.
create index users_tokens_not_before on users (tokens_not_before, id)
    where tokens_not_before is not null;
