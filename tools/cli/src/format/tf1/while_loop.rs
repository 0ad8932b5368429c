//! The while loop that `tf.nn.dynamic_rnn` makes: a counter from 0 to the number of steps, state variables that
//! begin at zero, and an array of inputs, read at the counter.

use super::graph::Value;
use super::matcher::Matcher;
use crate::error::ImportError;

/// Most state variables of a loop: two for each of 64 layers, and room.
const MAX_VARIABLES: usize = 256;

/// A loop of which the counter and the bound have been read.
pub struct Loop {
    /// How often the body runs.
    pub steps: usize,
    counter: Value,
    /// Everything but the counter.
    variables: Vec<Variable>,
}

/// What the loop carries from one step to the next.
struct Variable {
    /// Its value in the body.
    merge: Value,
    /// Where its value in the next step comes from.
    next: Value,
    /// Where its first value comes from.
    initial: Value,
}

impl Loop {
    /// The loop that this Exit leaves, and the index of the variable that it shows.
    pub fn read(m: &mut Matcher<'_>, exit: Value) -> Result<(Self, usize), ImportError> {
        let [switch] = m.expect(exit, "Exit")?;
        let [shown, condition] = m.expect_output(switch, "Switch", 0)?;
        m.switch(switch, condition)?;
        let [less] = m.expect(condition, "LoopCond")?;
        let [counter, bound] = m.expect(less, "Less")?;
        let steps = m.scalar(bound)?;
        let Some(steps) = usize::try_from(steps).ok().filter(|&steps| steps > 0) else {
            return m.fail(less, format!("the loop runs {steps} times"));
        };
        let mut variables = Vec::new();
        let mut counted = false;
        for node in 0..m.graph.nodes.len() {
            let merge = Value { node, output: 0 };
            if m.node(merge).def.op != "Merge" {
                continue;
            }
            if variables.len() == MAX_VARIABLES {
                return m.fail(merge, format!("the loop has more than {MAX_VARIABLES} states"));
            }
            let variable = Variable::read(m, merge)?;
            if merge != counter {
                variables.push(variable);
                continue;
            }
            let [from, step] = m.sum(variable.next)?;
            if m.scalar(variable.initial)? != 0 || m.source(from)? != counter || m.scalar(step)? != 1 {
                return m.fail(counter, "the loop's counter must start at 0 and count up by 1");
            }
            counted = true;
        }
        if !counted {
            return m.fail(less, "it must compare the loop's counter with the number of steps");
        }
        let Some(index) = variables.iter().position(|variable| variable.merge == shown) else {
            return m.fail(exit, "it must show a state of the loop");
        };
        Ok((Self { steps, counter, variables }, index))
    }

    /// The value of a variable in the body.
    pub fn old(&self, variable: usize) -> Value {
        self.variables[variable].merge
    }

    /// The value of a variable in the next step.
    pub fn next(&self, variable: usize) -> Value {
        self.variables[variable].next
    }

    /// The variable that becomes this value in the next step.
    pub fn becomes(&self, value: Value) -> Option<usize> {
        self.variables.iter().position(|variable| variable.next == value)
    }

    /// Refuses a variable that does not begin as `size` zeros.
    pub fn check_initial(&self, m: &mut Matcher<'_>, variable: usize, size: usize) -> Result<(), ImportError> {
        let (initial, op) = m.op(self.variables[variable].initial)?;
        let (dims, zero) = if op == "Fill" {
            let [dims, value] = m.expect(initial, "Fill")?;
            (m.vector(dims)?, m.number(value)? == 0.0)
        } else {
            let tensor = m.constant(initial)?;
            let zero = tensor.data.iter().all(|&value| value == 0.0);
            (tensor.shape.iter().map(|&dim| dim as i64).collect(), zero)
        };
        if dims != [1, size as i64] || !zero {
            return m.fail(initial, format!("the state before the first step must be zeros of [1, {size}]"));
        }
        Ok(())
    }

    /// What the body reads at each step: `x[counter]` of an array unstacked from a [batch, steps, features] value,
    /// which is returned.
    pub fn sequence(&self, m: &mut Matcher<'_>, read: Value) -> Result<Value, ImportError> {
        let [handle, index, flow] = m.expect(read, "TensorArrayReadV3")?;
        if m.source(index)? != self.counter {
            return m.fail(read, "it must read at the loop's counter");
        }
        let [scattered, indices, value, made] = m.expect(flow, "TensorArrayScatterV3")?;
        let array = m.source(handle)?;
        let [len] = m.expect(array, "TensorArrayV3")?;
        if m.source(scattered)? != array || m.source(made)? != (Value { output: 1, ..array }) {
            return m.fail(read, "it must read the array that the inputs were written to");
        }
        if m.scalar(len)? != self.steps as i64 || !m.vector(indices)?.into_iter().eq(0..self.steps as i64) {
            return m.fail(array, format!("it must hold the {} steps of the loop in their order", self.steps));
        }
        let [sequence, order] = m.expect(value, "Transpose")?;
        if m.vector(order)? != [1, 0, 2] {
            return m.fail(value, "it must swap batch and time, [1, 0, 2]");
        }
        m.source(sequence)
    }
}

impl Variable {
    fn read(m: &mut Matcher<'_>, merge: Value) -> Result<Self, ImportError> {
        let [enter, back] = m.expect(merge, "Merge")?;
        let [initial] = m.expect_output(enter, "Enter", 0)?;
        m.enter(enter, false)?;
        let [next] = m.expect_output(back, "NextIteration", 0)?;
        Ok(Self { merge, next: m.source(next)?, initial })
    }
}
