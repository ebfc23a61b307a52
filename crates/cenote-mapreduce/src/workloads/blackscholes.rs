//! Prices of European options by the formula of Black and Scholes, with the cumulative normal distribution by a
//! polynomial of degree 5 (Abramowitz and Stegun 26.2.17), as programs of this name have it.
//!
//! Input: a line for each option, of six words: price of the share, price at which the option is exercised, riskless
//! rate a year, volatility a year, years until then, and C (call) or P (put). Output: a line for each, the price.

use std::f64::consts::PI;
use std::io::Write;

use crate::error::{Error, Result};
use crate::input::{Input, part};
use crate::job::{Data, Job};

pub struct Prices {
    input: Input,
    grain: u64,
    rounds: u32,
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quote {
    spot: f64,
    strike: f64,
    rate: f64,
    volatility: f64,
    years: f64,
    is_put: bool,
}

impl Quote {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let mut numbers = [0.0; 5];
        for number in &mut numbers {
            *number = words.next()?.parse().ok().filter(|n: &f64| n.is_finite())?;
        }
        let [spot, strike, rate, volatility, years] = numbers;
        let is_put = match words.next()? {
            "C" => false,
            "P" => true,
            _ => return None,
        };
        let is_whole = words.next().is_none();
        (is_whole && spot > 0.0 && strike > 0.0 && volatility > 0.0 && years > 0.0).then_some(Self {
            spot,
            strike,
            rate,
            volatility,
            years,
            is_put,
        })
    }

    fn price(&self) -> f64 {
        let spread = self.volatility * self.years.sqrt();
        let drift = (self.rate + self.volatility * self.volatility / 2.0) * self.years;
        let d1 = ((self.spot / self.strike).ln() + drift) / spread;
        let d2 = d1 - spread;
        let later = self.strike * (-self.rate * self.years).exp();
        match self.is_put {
            false => self.spot * below(d1) - later * below(d2),
            true => later * below(-d2) - self.spot * below(-d1),
        }
    }
}

/// How likely a normally distributed number is below another.
fn below(x: f64) -> f64 {
    const FACTORS: [f64; 5] = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let k = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let polynomial = FACTORS.iter().rev().fold(0.0, |sum, factor| (sum + factor) * k);
    let above = (-x * x / 2.0).exp() / (2.0 * PI).sqrt() * polynomial;
    if x < 0.0 { above } else { 1.0 - above }
}

impl Prices {
    pub fn new(input: Input, grain: u64, rounds: u32) -> Result<Self> {
        match rounds {
            0 => Err(Error::Setting("each option is priced at least once")),
            rounds => Ok(Self { input, grain, rounds }),
        }
    }
}

impl Job for Prices {
    fn phases(&self) -> Vec<u64> {
        vec![self.input.len().div_ceil(self.grain).max(1)]
    }

    fn run(&self, _phase: usize, task: u64, _data: &dyn Data) -> Result<Vec<u8>> {
        let (text, at) = self
            .input
            .pieces(part(task, self.grain, self.input.len()), |byte| byte != b'\n')?;
        let mut result = Vec::new();
        let mut begin = 0;
        for line in text.split(|byte| *byte == b'\n') {
            let quote = std::str::from_utf8(line).ok().and_then(Quote::parse);
            if let Some(quote) = quote {
                let mut price = quote.price();
                for _ in 1..self.rounds {
                    price = std::hint::black_box(&quote).price();
                }
                writeln!(result, "{price}").map_err(Error::Output)?;
            } else if !line.is_empty() {
                let why = "not an option: five numbers, and C or P";
                return Err(Error::input(self.input.path(), at + begin, why));
            }
            begin += line.len() as u64 + 1;
        }
        Ok(result)
    }

    fn finish(&self, data: &dyn Data, output: &mut dyn Write) -> Result<()> {
        for task in 0..self.phases()[0] {
            data.result(0, task, &mut |prices| {
                output.write_all(prices).map_err(Error::Output)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_those_of_the_books() {
        // Hull, Options, Futures and Other Derivatives: 42, 40, 10 %, 20 %, half a year: 4.76 and 0.81.
        let call = Quote::parse("42 40 0.1 0.2 0.5 C").unwrap();
        let put = Quote::parse("42 40 0.1 0.2 0.5 P").unwrap();
        assert!((call.price() - 4.76).abs() < 0.005, "{}", call.price());
        assert!((put.price() - 0.81).abs() < 0.005, "{}", put.price());
    }

    #[test]
    fn lines_that_are_no_options_are_seen() {
        for bad in [
            "",
            "1 2 3",
            "1 2 3 4 5 X",
            "1 2 3 4 5 C 6",
            "0 1 1 1 1 C",
            "1 1 1 1 nan P",
            "1 1 1 1 x P",
        ] {
            assert_eq!(Quote::parse(bad), None, "{bad}");
        }
    }
}
