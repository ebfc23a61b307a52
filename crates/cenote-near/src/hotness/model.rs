//! The gated recurrent unit: one hidden layer of 32, and a fully connected layer to the classes (section V-A).

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::rnn::{GRU, GRUConfig, RNN, gru};
use candle_nn::{AdamW, Linear, Module, Optimizer, ParamsAdamW, VarBuilder, VarMap, linear, loss, ops};

use super::features::{History, INPUTS, STEPS};
use crate::map::mix;

/// Classes that it tells apart.
pub(super) const CLASSES: usize = 8;
const HIDDEN: usize = 32;
/// Subranges of one step of the optimiser.
const MINIBATCH: usize = 64;

pub(super) struct Model {
    gru: GRU,
    out: Linear,
    optimizer: AdamW,
}

impl Model {
    /// With weights that a seed decides.
    pub fn new(seed: u64, rate: f64) -> Result<Self> {
        let variables = VarMap::new();
        let mut word = seed;
        let bound = 1.0 / (HIDDEN as f64).sqrt();
        for (name, shape) in [
            ("gru.weight_ih_l0", vec![3 * HIDDEN, INPUTS]),
            ("gru.weight_hh_l0", vec![3 * HIDDEN, HIDDEN]),
            ("out.weight", vec![CLASSES, HIDDEN]),
        ] {
            let weights: Vec<f32> = (0..shape.iter().product())
                .map(|_| {
                    word = mix(word);
                    (((word >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0) * bound) as f32
                })
                .collect();
            let variable = Var::from_vec(weights, shape, &Device::Cpu)?;
            if let Ok(mut all) = variables.data().lock() {
                all.insert(name.to_owned(), variable);
            }
        }
        let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
        // The names above are those that these ask for; biases begin at 0, or at what a library's generator gives:
        // those of the last layer are set here.
        let gru = gru(INPUTS, HIDDEN, GRUConfig::default(), builder.pp("gru"))?;
        let bias = Var::zeros(CLASSES, DType::F32, &Device::Cpu)?;
        if let Ok(mut all) = variables.data().lock() {
            all.insert("out.bias".to_owned(), bias);
        }
        let out = linear(HIDDEN, CLASSES, builder.pp("out"))?;
        let adam = ParamsAdamW {
            lr: rate,
            weight_decay: 0.0,
            ..ParamsAdamW::default()
        };
        // Without decay of weights AdamW is Adam. The order of variables must not matter: each has its own moments.
        let optimizer = AdamW::new(variables.all_vars(), adam)?;
        Ok(Self { gru, out, optimizer })
    }

    /// What comes after what was seen so many batches ago.
    fn logits(&self, histories: &[&History], ago: usize) -> Result<Tensor> {
        let mut digits = Vec::with_capacity(histories.len() * STEPS * INPUTS);
        for history in histories {
            history.write(ago, &mut digits);
        }
        let input = Tensor::from_vec(digits, (histories.len(), STEPS, INPUTS), &Device::Cpu)?;
        let mut state = self.gru.zero_state(histories.len())?;
        for step in 0..STEPS {
            let now = input.narrow(1, step, 1)?.squeeze(1)?.contiguous()?;
            state = self.gru.step(&now, &state)?;
        }
        self.out.forward(state.h())
    }

    /// An epoch over subranges with the classes that they had in the batches since.
    pub fn train(&mut self, samples: &[(&History, u8)], ago: usize) -> Result<()> {
        for part in samples.chunks(MINIBATCH) {
            let histories: Vec<&History> = part.iter().map(|(history, _)| *history).collect();
            let classes: Vec<u32> = part.iter().map(|(_, class)| u32::from(*class)).collect();
            let classes = Tensor::from_vec(classes, part.len(), &Device::Cpu)?;
            let loss = loss::cross_entropy(&self.logits(&histories, ago)?, &classes)?;
            self.optimizer.backward_step(&loss)?;
        }
        Ok(())
    }

    /// The probability of each class.
    pub fn predict(&self, histories: &[&History]) -> Result<Vec<[f32; CLASSES]>> {
        let mut all = Vec::with_capacity(histories.len());
        for part in histories.chunks(4096) {
            let rows = ops::softmax(&self.logits(part, 0)?, 1)?.to_vec2::<f32>()?;
            all.extend(rows.into_iter().map(|row| {
                let mut classes = [0.0; CLASSES];
                classes
                    .iter_mut()
                    .zip(row)
                    .for_each(|(class, value)| *class = value);
                classes
            }));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::features::Step;
    use super::*;

    fn history(hotness: u32) -> History {
        let mut history = History::default();
        (0..STEPS as u32).for_each(|step| {
            let step = Step {
                hotness: hotness + step,
                keys: 9,
                ..Step::default()
            };
            history.push(step, 0);
        });
        history
    }

    fn best(row: &[f32; CLASSES]) -> usize {
        (0..CLASSES)
            .max_by(|one, other| row[*one].total_cmp(&row[*other]))
            .unwrap()
    }

    #[test]
    fn it_learns_what_it_is_shown_and_the_same_each_time() {
        let all: Vec<History> = (0..256).map(history).collect();
        let mut samples: Vec<(&History, u8)> = all
            .iter()
            .zip(0u8..=255)
            .map(|(one, number)| (one, number / 64))
            .collect();
        samples.sort_by_key(|(history, _)| mix(history.latest().hotness.into()));
        let learnt = || {
            let mut model = Model::new(1, 0.01).unwrap();
            (0..150).for_each(|_| model.train(&samples, 0).unwrap());
            let histories: Vec<&History> = samples.iter().map(|(history, _)| *history).collect();
            model.predict(&histories).unwrap()
        };
        let rows = learnt();
        let right = rows
            .iter()
            .zip(&samples)
            .filter(|(row, (_, class))| best(row) == usize::from(*class));
        let right = right.count();
        assert!(right > 230, "{right} of 256");
        assert_eq!(rows, learnt());
    }
}
