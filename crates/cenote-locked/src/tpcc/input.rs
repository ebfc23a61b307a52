//! What terminals ask for (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1), in the standard mix.

use super::layout::District;
use super::random::Random;
use super::scale::Scale;

/// A customer, as a terminal names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// By number.
    Number(u32),
    /// By the number of a last name.
    LastName(u32),
}

/// A line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The item. One that does not exist has the order rolled back.
    pub item: u64,
    /// The warehouse that supplies it.
    pub supplier: u32,
    /// How many.
    pub quantity: u64,
}

/// What a transaction is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A customer orders.
    NewOrder {
        /// Where.
        district: District,
        /// Who.
        customer: u32,
        /// What: 5 to 15 lines.
        lines: Vec<Ordered>,
    },
    /// A customer pays.
    Payment {
        /// Where.
        district: District,
        /// The customer's own district.
        customer_district: District,
        /// Who.
        customer: Who,
        /// How much, in cents.
        amount: u64,
    },
    /// A customer asks for the last order.
    OrderStatus {
        /// Where.
        district: District,
        /// Who.
        customer: Who,
    },
    /// The oldest order of each district is delivered.
    Delivery {
        /// Where.
        warehouse: u32,
        /// By whom: 1 to 10. There is no carrier 0.
        carrier: u64,
    },
    /// How many items that were ordered lately are short.
    StockLevel {
        /// Where.
        district: District,
        /// What is short.
        threshold: u64,
    },
}

/// The kinds of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// New-Order.
    NewOrder,
    /// Payment.
    Payment,
    /// Order-Status.
    OrderStatus,
    /// Delivery.
    Delivery,
    /// Stock-Level.
    StockLevel,
}

impl Kind {
    /// All of them, in the order of the clauses.
    pub const ALL: [Self; 5] = [
        Self::NewOrder,
        Self::Payment,
        Self::OrderStatus,
        Self::Delivery,
        Self::StockLevel,
    ];

    /// What TPC-C calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "New-Order",
            Self::Payment => "Payment",
            Self::OrderStatus => "Order-Status",
            Self::Delivery => "Delivery",
            Self::StockLevel => "Stock-Level",
        }
    }

    /// Its share of the standard mix, in per cent.
    pub const fn share(self) -> u64 {
        match self {
            Self::NewOrder => 45,
            Self::Payment => 43,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 4,
        }
    }

    /// Whether it changes nothing, so that the lock is taken shared.
    pub const fn is_read_only(self) -> bool {
        matches!(self, Self::OrderStatus | Self::StockLevel)
    }
}

impl Input {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::NewOrder { .. } => Kind::NewOrder,
            Self::Payment { .. } => Kind::Payment,
            Self::OrderStatus { .. } => Kind::OrderStatus,
            Self::Delivery { .. } => Kind::Delivery,
            Self::StockLevel { .. } => Kind::StockLevel,
        }
    }
}

/// Inputs without end, as from the terminals of all warehouses.
pub struct Terminals {
    scale: Scale,
    random: Random,
}

impl Terminals {
    /// Those of a worker; workers of one seed ask for different things.
    pub fn new(scale: Scale, seed: u64, worker: u64) -> Self {
        // Streams from 0 on are those of the load.
        let random = Random::new(seed, (1 << 40) + worker);
        Self { scale, random }
    }

    /// The next one.
    pub fn next_input(&mut self) -> Input {
        let drawn = self.random.within(1, 100);
        let mut bound = 0;
        let kind = Kind::ALL.into_iter().find(|kind| {
            bound += kind.share();
            drawn <= bound
        });
        self.of_kind(kind.unwrap_or(Kind::NewOrder))
    }

    /// One of a kind.
    pub fn of_kind(&mut self, kind: Kind) -> Input {
        let warehouse = self.random.within(1, self.scale.warehouses.into()) as u32;
        let district = District {
            warehouse,
            district: self.random.within(1, self.scale.districts.into()) as u32,
        };
        match kind {
            Kind::NewOrder => self.new_order(district),
            Kind::Payment => self.payment(district),
            Kind::OrderStatus => Input::OrderStatus {
                district,
                customer: self.who(),
            },
            Kind::Delivery => Input::Delivery {
                warehouse,
                carrier: self.random.within(1, 10),
            },
            Kind::StockLevel => Input::StockLevel {
                district,
                threshold: self.random.within(10, 20),
            },
        }
    }

    fn who(&mut self) -> Who {
        match self.random.percent(60) {
            true => Who::LastName(self.random.name(self.scale.names())),
            false => Who::Number(self.random.customer(self.scale.customers)),
        }
    }

    /// Another warehouse, or this one if there is no other.
    fn other_than(&mut self, warehouse: u32) -> u32 {
        match self.scale.warehouses {
            1 => warehouse,
            all => {
                let drawn = self.random.within(1, u64::from(all) - 1) as u32;
                drawn + u32::from(drawn >= warehouse)
            }
        }
    }

    fn new_order(&mut self, district: District) -> Input {
        let customer = self.random.customer(self.scale.customers);
        let count = self.random.within(5, 15);
        let fails = self.random.percent(1);
        let line = |n| Ordered {
            item: match fails && n == count {
                true => u64::from(self.scale.items) + 1,
                false => self.random.item(self.scale.items),
            },
            supplier: match self.random.percent(1) {
                true => self.other_than(district.warehouse),
                false => district.warehouse,
            },
            quantity: self.random.within(1, 10),
        };
        Input::NewOrder {
            district,
            customer,
            lines: (1..=count).map(line).collect(),
        }
    }

    fn payment(&mut self, district: District) -> Input {
        let customer_district = match self.random.percent(85) {
            true => district,
            false => District {
                warehouse: self.other_than(district.warehouse),
                district: self.random.within(1, self.scale.districts.into()) as u32,
            },
        };
        Input::Payment {
            district,
            customer_district,
            customer: self.who(),
            amount: self.random.within(100, 500_000),
        }
    }
}
