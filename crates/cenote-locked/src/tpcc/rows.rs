//! The columns of each table: their words in a row. Texts have the words behind them in brackets; money is in cents,
//! rates are in hundredths of a per cent.

/// A text in a row.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// Its first word in the row.
    pub at: u64,
    /// Its words.
    pub words: u64,
}

const fn text(at: u64, words: u64) -> Text {
    Text { at, words }
}

/// ITEM.
pub mod item {
    use super::{Text, text};

    /// I_PRICE.
    pub const PRICE: u64 = 0;
    /// I_IM_ID.
    pub const IMAGE: u64 = 1;
    /// I_NAME.
    pub const NAME: Text = text(2, 3);
    /// I_DATA.
    pub const DATA: Text = text(5, 7);
    /// Words of a row.
    pub const WORDS: u64 = 12;
}

/// WAREHOUSE.
pub mod warehouse {
    use super::{Text, text};

    /// W_YTD.
    pub const YTD: u64 = 0;
    /// W_TAX.
    pub const TAX: u64 = 1;
    /// Rows of HISTORY that were ever written.
    pub const HISTORY: u64 = 2;
    /// W_NAME.
    pub const NAME: Text = text(3, 2);
    /// W_STREET_1, W_STREET_2, W_CITY, W_STATE, W_ZIP.
    pub const ADDRESS: Text = text(5, super::ADDRESS_WORDS);
    /// Words of a row.
    pub const WORDS: u64 = 5 + super::ADDRESS_WORDS;
}

/// Words of an address: two streets and a city of three each, a state, a zip of two.
pub const ADDRESS_WORDS: u64 = 12;

/// STOCK.
pub mod stock {
    use super::{Text, text};

    /// S_QUANTITY.
    pub const QUANTITY: u64 = 0;
    /// S_YTD.
    pub const YTD: u64 = 1;
    /// S_ORDER_CNT.
    pub const ORDERS: u64 = 2;
    /// S_REMOTE_CNT.
    pub const REMOTE: u64 = 3;
    /// S_DIST of a district, from 1 on.
    pub const fn district(number: u32) -> Text {
        text(4 + 3 * (number as u64 - 1), 3)
    }
    /// S_DATA.
    pub const DATA: Text = text(34, 7);
    /// Words of a row.
    pub const WORDS: u64 = 41;
}

/// HISTORY.
pub mod history {
    use super::{Text, text};

    /// H_C_ID.
    pub const CUSTOMER: u64 = 0;
    /// H_C_D_ID.
    pub const CUSTOMER_DISTRICT: u64 = 1;
    /// H_C_W_ID.
    pub const CUSTOMER_WAREHOUSE: u64 = 2;
    /// H_D_ID.
    pub const DISTRICT: u64 = 3;
    /// H_DATE.
    pub const DATE: u64 = 4;
    /// H_AMOUNT.
    pub const AMOUNT: u64 = 5;
    /// H_DATA.
    pub const DATA: Text = text(6, 3);
    /// Words of a row.
    pub const WORDS: u64 = 9;
}

/// DISTRICT.
pub mod district {
    use super::{Text, text};

    /// D_NEXT_O_ID.
    pub const NEXT_ORDER: u64 = 0;
    /// The oldest order that is not delivered, or D_NEXT_O_ID.
    pub const OLDEST_NEW: u64 = 1;
    /// D_YTD.
    pub const YTD: u64 = 2;
    /// D_TAX.
    pub const TAX: u64 = 3;
    /// Orders that have made room.
    pub const DROPPED_ORDERS: u64 = 4;
    /// Sum of H_AMOUNT of rows that have made room.
    pub const DROPPED_PAID: u64 = 5;
    /// D_NAME.
    pub const NAME: Text = text(6, 2);
    /// D_STREET_1, D_STREET_2, D_CITY, D_STATE, D_ZIP.
    pub const ADDRESS: Text = text(8, super::ADDRESS_WORDS);
    /// Words of a row.
    pub const WORDS: u64 = 8 + super::ADDRESS_WORDS;
}

/// CUSTOMER.
pub mod customer {
    use super::{Text, text};

    /// C_BALANCE.
    pub const BALANCE: u64 = 0;
    /// C_YTD_PAYMENT.
    pub const YTD_PAYMENT: u64 = 1;
    /// C_PAYMENT_CNT.
    pub const PAYMENTS: u64 = 2;
    /// C_DELIVERY_CNT.
    pub const DELIVERIES: u64 = 3;
    /// The customer's last order, or 0.
    pub const LAST_ORDER: u64 = 4;
    /// Sum of OL_AMOUNT of orders that have made room.
    pub const DROPPED_AMOUNT: u64 = 5;
    /// Sum of H_AMOUNT of rows that have made room.
    pub const DROPPED_PAID: u64 = 6;
    /// C_DISCOUNT.
    pub const DISCOUNT: u64 = 7;
    /// C_CREDIT_LIM.
    pub const CREDIT_LIMIT: u64 = 8;
    /// C_SINCE.
    pub const SINCE: u64 = 9;
    /// C_CREDIT: "GC" or "BC".
    pub const CREDIT: Text = text(10, 1);
    /// C_FIRST.
    pub const FIRST: Text = text(11, 2);
    /// C_MIDDLE.
    pub const MIDDLE: Text = text(13, 1);
    /// C_LAST.
    pub const LAST: Text = text(14, 2);
    /// C_STREET_1, C_STREET_2, C_CITY, C_STATE, C_ZIP.
    pub const ADDRESS: Text = text(16, super::ADDRESS_WORDS);
    /// C_PHONE.
    pub const PHONE: Text = text(28, 2);
    /// C_DATA, of which 500 bytes are used.
    pub const DATA: Text = text(30, 63);
    /// Bytes of C_DATA.
    pub const DATA_BYTES: usize = 500;
    /// Words of a row.
    pub const WORDS: u64 = 93;
}

/// ORDER.
pub mod order {
    /// O_ID; 0 if there is no row.
    pub const ID: u64 = 0;
    /// O_C_ID.
    pub const CUSTOMER: u64 = 1;
    /// O_ENTRY_D.
    pub const ENTERED: u64 = 2;
    /// O_CARRIER_ID; 0 if it is not delivered.
    pub const CARRIER: u64 = 3;
    /// O_OL_CNT.
    pub const LINES: u64 = 4;
    /// O_ALL_LOCAL.
    pub const ALL_LOCAL: u64 = 5;
    /// Words of a row.
    pub const WORDS: u64 = 6;
    /// The most lines of an order.
    pub const LINES_MAX: u64 = 15;
}

/// ORDER-LINE.
pub mod line {
    use super::{Text, text};

    /// OL_O_ID; 0 if there is no row.
    pub const ORDER: u64 = 0;
    /// OL_I_ID.
    pub const ITEM: u64 = 1;
    /// OL_SUPPLY_W_ID.
    pub const SUPPLIER: u64 = 2;
    /// OL_DELIVERY_D; 0 if it is not delivered.
    pub const DELIVERED: u64 = 3;
    /// OL_QUANTITY.
    pub const QUANTITY: u64 = 4;
    /// OL_AMOUNT.
    pub const AMOUNT: u64 = 5;
    /// OL_DIST_INFO.
    pub const INFO: Text = text(6, 3);
    /// Words of a row.
    pub const WORDS: u64 = 9;
}
