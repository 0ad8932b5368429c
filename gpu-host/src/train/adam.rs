//! Adam (Kingma and Ba 2015) with decoupled weight decay (AdamW, Loshchilov and Hutter 2019). The gradient is clipped
//! by its norm first (Pascanu, Mikolov and Bengio 2013).

/// Hyperparameters of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) learning: f64,
    /// Weight decay per unit of `learning`; 0 is plain Adam.
    pub(super) decay: f64,
    /// Maximum Euclidean norm of the gradient.
    pub(super) clip: f64,
}

/// β₁, β₂ and ε, as in the paper and in PyTorch.
const MOMENTS: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

/// The moments and the number of steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Adam {
    pub(super) first: Vec<f32>,
    pub(super) second: Vec<f32>,
    pub(super) steps: u32,
}

impl Adam {
    pub(super) fn new(size: usize) -> Self {
        Self { first: vec![0.0; size], second: vec![0.0; size], steps: 0 }
    }

    pub(super) fn step(&mut self, rates: &Rates, params: &mut [f32], gradient: &[f32]) {
        let norm = gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
        // 1e-6 as in PyTorch's `clip_grad_norm_`.
        let scale = (rates.clip / (norm + 1e-6)).min(1.0);
        self.steps = self.steps.saturating_add(1);
        let steps = f64::from(self.steps);
        let [beta, gamma] = MOMENTS;
        let learning = rates.learning / (1.0 - beta.powf(steps));
        let unbiased = (1.0 - gamma.powf(steps)).sqrt();
        let kept = (1.0 - rates.learning * rates.decay) as f32;
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((param, &gradient), (first, second)) in params.iter_mut().zip(gradient).zip(moments) {
            let gradient = f64::from(gradient) * scale;
            *first = (beta * f64::from(*first) + (1.0 - beta) * gradient) as f32;
            *second = (gamma * f64::from(*second) + (1.0 - gamma) * gradient * gradient) as f32;
            let step = learning * f64::from(*first) / (f64::from(*second).sqrt() / unbiased + EPSILON);
            *param = (f64::from(*param * kept) - step) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With bias correction, the first step has the size of the learning rate for any gradient.
    #[test]
    fn the_first_step_is_the_rate() {
        let rates = Rates { learning: 0.5, decay: 0.0, clip: f64::INFINITY };
        let mut params = [1.0, 1.0, 1.0];
        Adam::new(3).step(&rates, &mut params, &[1e-3, -7.0, 0.0]);
        for (found, needed) in params.iter().zip([0.5, 1.5, 1.0]) {
            assert!((found - needed).abs() < 1e-4, "{params:?}");
        }
    }

    #[test]
    fn decay_is_decoupled_and_a_long_gradient_is_clipped() {
        let mut params = [2.0];
        Adam::new(1).step(&Rates { learning: 0.1, decay: 0.5, clip: 1.0 }, &mut params, &[0.0]);
        assert!((params[0] - 1.9).abs() < 1e-6);
        let mut adam = Adam::new(2);
        adam.step(&Rates { learning: 0.1, decay: 0.0, clip: 1.0 }, &mut [0.0; 2], &[30.0, 40.0]);
        assert!((adam.first[0] - 0.06).abs() < 1e-6 && (adam.first[1] - 0.08).abs() < 1e-6);
    }
}
