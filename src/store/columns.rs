//! Types of ours as columns and rows of the database. A number that is no id is an error of the row.

use crate::model::{
    Code, EntryStatus, HeldFor, OrderId, OrderStatus, UnmatchedId, UserId, VoucherId,
};

/// Columns of a type: each is made of what the database has in its place.
macro_rules! column {
    ($($column:ty: $stored:ty),*) => {$(
        impl sqlx::Type<sqlx::Postgres> for $column {
            fn type_info() -> sqlx::postgres::PgTypeInfo {
                <$stored as sqlx::Type<sqlx::Postgres>>::type_info()
            }
        }

        impl sqlx::postgres::PgHasArrayType for $column {
            fn array_type_info() -> sqlx::postgres::PgTypeInfo {
                <$stored as sqlx::postgres::PgHasArrayType>::array_type_info()
            }
        }

        impl sqlx::Decode<'_, sqlx::Postgres> for $column {
            fn decode(
                value: sqlx::postgres::PgValueRef<'_>,
            ) -> Result<Self, sqlx::error::BoxDynError> {
                let stored = <$stored as sqlx::Decode<'_, sqlx::Postgres>>::decode(value)?;
                Ok(Self::try_from(stored)?)
            }
        }
    )*};
}
pub(crate) use column;

/// Rows of a type: each field is the column of its name, `..field` is made of columns of its own, and what stands behind a
/// semicolon is no column and is filled in later. What `sqlx` derives
/// does the same, and has the compiler build the driver a second time.
macro_rules! row {
    ($row:ty: $(..$part:ident,)? $($field:ident),* $(; $($later:ident),*)?) => {
        impl sqlx::FromRow<'_, sqlx::postgres::PgRow> for $row {
            fn from_row(row: &sqlx::postgres::PgRow) -> sqlx::Result<Self> {
                Ok(Self {
                    $($part: sqlx::FromRow::from_row(row)?,)?
                    $($field: sqlx::Row::try_get(row, stringify!($field))?,)*
                    $($($later: Default::default(),)*)?
                })
            }
        }
    };
}
pub(crate) use row;

/// Enums whose numbers are the database's.
macro_rules! number {
    ($($column:ty),*) => {$(
        impl TryFrom<i16> for $column {
            type Error = String;
            fn try_from(number: i16) -> Result<Self, String> {
                let found = Self::from_repr(number);
                found.ok_or_else(|| format!("{number} is no {}", stringify!($column)))
            }
        }
    )*};
}

number!(HeldFor);
column!(UserId: i64, VoucherId: i64, OrderId: i64, UnmatchedId: i64, OrderStatus: i16, HeldFor: i16, EntryStatus: &str, Code: &str);
