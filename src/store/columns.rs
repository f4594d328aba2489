//! Types of the model as columns of the database. A number that is no id is an error of the row.

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef};
use sqlx::{Decode, Postgres, Type};

use crate::model::{OrderId, OrderStatus, UserId, VoucherId};

macro_rules! column {
    ($($column:ty: $number:ty),*) => {$(
        impl Type<Postgres> for $column {
            fn type_info() -> PgTypeInfo {
                <$number as Type<Postgres>>::type_info()
            }
        }

        impl Decode<'_, Postgres> for $column {
            fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
                let number = <$number as Decode<'_, Postgres>>::decode(value)?;
                Ok(Self::try_from(number)?)
            }
        }
    )*};
}

column!(UserId: i64, VoucherId: i64, OrderId: i64, OrderStatus: i16);
