//! How large a store is.

use crate::error::{Error, Result};

/// Sizes of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u32,
    /// Districts of a warehouse.
    pub districts: u32,
    /// Customers of a district; as many orders are loaded.
    pub customers: u32,
    /// Items, and rows of a warehouse's stock.
    pub items: u32,
    /// Orders that a district keeps.
    pub orders: u32,
    /// Rows of HISTORY that a warehouse keeps.
    pub history: u32,
}

/// The most of anything.
const MOST: u32 = 1 << 24;

impl Scale {
    /// TPC-C's own sizes (clause 1.2.1): 10 districts, 3,000 customers each, 100,000 items. A district keeps 6,000
    /// orders, and a warehouse 60,000 rows of HISTORY: twice what is loaded. A warehouse has about 128 MB.
    pub const fn standard(warehouses: u32) -> Self {
        Self {
            warehouses,
            districts: 10,
            customers: 3000,
            items: 100_000,
            orders: 6000,
            history: 60_000,
        }
    }

    /// Small sizes, for tests: 10 districts, 30 customers each, 200 items, 60 orders, 600 rows of HISTORY. A warehouse
    /// has about 1 MB.
    pub const fn small(warehouses: u32) -> Self {
        Self {
            warehouses,
            districts: 10,
            customers: 30,
            items: 200,
            orders: 60,
            history: 600,
        }
    }

    /// Fails if a size is out of range.
    ///
    /// Errors: [`Error::Setting`].
    pub fn check(&self) -> Result<()> {
        let refuse = |what, value: u32, why| {
            let value = value.into();
            Err(Error::Setting { what, value, why })
        };
        for (what, value, least) in [
            ("the number of warehouses", self.warehouses, 1),
            ("the number of districts", self.districts, 1),
            ("the number of customers", self.customers, 10),
            ("the number of items", self.items, 20),
            ("the number of orders", self.orders, 10),
            ("the number of rows of HISTORY", self.history, 10),
        ] {
            if !(least..=MOST).contains(&value) {
                return refuse(
                    what,
                    value,
                    "1 to 16,777,216 warehouses and districts, 10 to as many of others, 20 of items",
                );
            }
        }
        // A district is a word of a stock's row, and 10 of them have one.
        if self.districts > 10 {
            return refuse(
                "the number of districts",
                self.districts,
                "a warehouse has 10 at most",
            );
        }
        if self.orders < self.customers {
            return refuse(
                "the number of orders",
                self.orders,
                "a district keeps at least one for each customer",
            );
        }
        if u64::from(self.history) < u64::from(self.districts) * u64::from(self.customers) {
            return refuse(
                "the number of rows of HISTORY",
                self.history,
                "a warehouse keeps at least one for each customer",
            );
        }
        Ok(())
    }

    /// Orders of a district that are not delivered when it was loaded: 900 of 3,000 (clause 4.3.3.1).
    pub fn undelivered(&self) -> u32 {
        self.customers * 3 / 10
    }

    /// Last names that occur: 1,000, or as many as a district has customers.
    pub fn names(&self) -> u32 {
        self.customers.min(1000)
    }

    /// The sizes with what each is called, for the header.
    pub(super) fn words(&self) -> [(&'static str, u64); 6] {
        [
            ("the number of warehouses", self.warehouses.into()),
            ("the number of districts", self.districts.into()),
            ("the number of customers", self.customers.into()),
            ("the number of items", self.items.into()),
            ("the number of orders", self.orders.into()),
            ("the number of rows of HISTORY", self.history.into()),
        ]
    }
}
