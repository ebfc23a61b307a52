//! Where each row is. Numbers of rows begin with 1, as TPC-C's do; those that come from the store are checked.

use super::rows::{customer, district, history, item, line, order, stock, warehouse};
use super::scale::Scale;
use crate::error::{Error, Result};
use crate::words::{LINE_WORDS, Load, Record};

/// "CNTTPCC" and a version.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"CNTTPCC\x01");
/// The first word while the store is loaded.
pub(super) const LOADING: u64 = 1;
/// Words before the undo record: magic and sizes.
const HEAD: u64 = 8;
/// Pairs of the undo record. A New-Order of 15 lines makes 221 stores at most, a Delivery of 10 districts 200.
const PAIRS: u64 = 512;

/// The undo record of a store.
pub const UNDO: Record = Record::new(HEAD, PAIRS);

/// Where everything is in a store of a scale.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    scale: Scale,
    items: u64,
    warehouses: u64,
    warehouse_words: u64,
    /// In a warehouse.
    stock: u64,
    history: u64,
    districts: u64,
    district_words: u64,
    /// In a district.
    customers: u64,
    names: u64,
    orders: u64,
    new_orders: u64,
    lines: u64,
}

/// Gives rooms one after another, each from a line of its own on.
struct Rooms(u64);

impl Rooms {
    fn room(&mut self, rows: u64, words: u64) -> u64 {
        let at = self.0;
        self.0 = (at + rows * words).next_multiple_of(LINE_WORDS);
        at
    }
}

/// A district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct District {
    /// Its warehouse.
    pub warehouse: u32,
    /// Its number there.
    pub district: u32,
}

impl Layout {
    /// Of a scale.
    ///
    /// Errors: [`Error::Setting`].
    pub fn new(scale: Scale) -> Result<Self> {
        scale.check()?;
        let (customers, items) = (u64::from(scale.customers), u64::from(scale.items));
        let orders = u64::from(scale.orders);
        let mut within = Rooms(0);
        within.room(1, district::WORDS);
        let in_district = [
            within.room(customers, customer::WORDS),
            within.room(u64::from(scale.names()) + 1 + customers, 1),
            within.room(orders, order::WORDS),
            within.room(orders, 1),
            within.room(orders * order::LINES_MAX, line::WORDS),
        ];
        let district_words = within.0;
        let mut within = Rooms(0);
        within.room(1, warehouse::WORDS);
        let stock = within.room(items, stock::WORDS);
        let history = within.room(scale.history.into(), history::WORDS);
        let districts = within.room(scale.districts.into(), district_words);
        let warehouse_words = within.0;
        let mut all = Rooms(0);
        all.room(1, HEAD + UNDO.len());
        let [customers, names, orders, new_orders, lines] = in_district;
        Ok(Self {
            scale,
            items: all.room(items, item::WORDS),
            warehouses: all.0,
            warehouse_words,
            stock,
            history,
            districts,
            district_words,
            customers,
            names,
            orders,
            new_orders,
            lines,
        })
    }

    /// Its scale.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Bytes of a store.
    pub fn bytes(&self) -> u64 {
        8 * (self.warehouses + u64::from(self.scale.warehouses) * self.warehouse_words)
    }

    /// The word of the header with a size.
    pub(super) fn size_at(n: u64) -> u64 {
        1 + n
    }

    /// A row of ITEM; `None` if there is none of that number.
    pub fn item(&self, item: u64) -> Option<u64> {
        let n = item.checked_sub(1).filter(|n| *n < self.scale.items.into())?;
        Some(self.items + n * item::WORDS)
    }

    /// A row of WAREHOUSE.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn warehouse(&self, warehouse: u32) -> Result<u64> {
        let n = checked("warehouse", warehouse.into(), self.scale.warehouses)?;
        Ok(self.warehouses + n * self.warehouse_words)
    }

    /// A row of STOCK.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn stock(&self, warehouse: u32, item: u64) -> Result<u64> {
        let n = checked("item", item, self.scale.items)?;
        Ok(self.warehouse(warehouse)? + self.stock + n * stock::WORDS)
    }

    /// The row of HISTORY that is written as the one of a number, from 0 on.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn history(&self, warehouse: u32, number: u64) -> Result<u64> {
        let n = number % u64::from(self.scale.history);
        Ok(self.warehouse(warehouse)? + self.history + n * history::WORDS)
    }

    /// A row of DISTRICT.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn district(&self, of: District) -> Result<u64> {
        let n = checked("district", of.district.into(), self.scale.districts)?;
        Ok(self.warehouse(of.warehouse)? + self.districts + n * self.district_words)
    }

    /// A row of CUSTOMER.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn customer(&self, of: District, customer: u64) -> Result<u64> {
        let n = checked("customer", customer, self.scale.customers)?;
        Ok(self.district(of)? + self.customers + n * customer::WORDS)
    }

    /// The word of the index by last name that says where the customers of a name begin; the next one says where they
    /// end.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn name(&self, of: District, name: u32) -> Result<u64> {
        let n = checked("last name", u64::from(name) + 1, self.scale.names() + 1)?;
        Ok(self.district(of)? + self.names + n)
    }

    /// The word of the index by last name with the customer of a place.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn by_name(&self, of: District, place: u64) -> Result<u64> {
        let n = checked(
            "place in the index by last name",
            place.wrapping_add(1),
            self.scale.customers,
        )?;
        Ok(self.district(of)? + self.names + u64::from(self.scale.names()) + 1 + n)
    }

    fn slot(&self, order: u64) -> u64 {
        order % u64::from(self.scale.orders)
    }

    /// The row of ORDER for an order's number.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn order(&self, of: District, order: u64) -> Result<u64> {
        Ok(self.district(of)? + self.orders + self.slot(order) * order::WORDS)
    }

    /// The row of NEW-ORDER for an order's number: a word, the number, or 0 if there is no row.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn new_order(&self, of: District, order: u64) -> Result<u64> {
        Ok(self.district(of)? + self.new_orders + self.slot(order))
    }

    /// A row of ORDER-LINE, from 1 on, for an order's number.
    ///
    /// Errors: [`Error::NoSuch`].
    pub fn line(&self, of: District, order: u64, number: u64) -> Result<u64> {
        let n = checked("line", number, order::LINES_MAX as u32)?;
        let row = self.slot(order) * order::LINES_MAX + n;
        Ok(self.district(of)? + self.lines + row * line::WORDS)
    }

    /// All districts.
    pub fn districts(&self) -> impl Iterator<Item = District> + use<> {
        let Scale {
            warehouses,
            districts,
            ..
        } = self.scale;
        (1..=warehouses)
            .flat_map(move |warehouse| (1..=districts).map(move |district| District { warehouse, district }))
    }

    /// Fails unless words have a store of this scale, whole.
    ///
    /// Errors: [`Error::NotLoaded`], [`Error::OtherSizes`], [`Error::Beyond`].
    pub(super) fn check_header(&self, words: &impl Load) -> Result<()> {
        if words.load(0)? != MAGIC {
            return Err(Error::NotLoaded);
        }
        for (n, (what, wanted)) in (0..).zip(self.scale.words()) {
            let found = words.load(Self::size_at(n))?;
            if found != wanted {
                return Err(Error::OtherSizes { what, found, wanted });
            }
        }
        words.load(self.bytes() / 8 - 1).map(drop)
    }
}

/// A number from 1 on, as one from 0 on.
fn checked(what: &'static str, number: u64, count: u32) -> Result<u64> {
    match number.checked_sub(1) {
        Some(n) if n < count.into() => Ok(n),
        _ => Err(Error::NoSuch { what, number }),
    }
}
