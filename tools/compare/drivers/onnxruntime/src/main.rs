//! ONNX Runtime through its C API. All tensors are bound to memory once, so that a call is one `Run`. A stream has two
//! copies of its states: a call reads one and writes the other.
//!
//! `ONNXRUNTIME_LIB` is the path of the library.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use anyhow::{Context, Result, bail};
use compare_protocol::{Case, Port, Ports, Runner, serve};
use libloading::Library;
use ort_sys::{
    ONNXTensorElementDataType, OrtApi, OrtApiBase, OrtLoggingLevel, OrtMemType, OrtMemoryInfo, OrtSession,
    OrtStatusPtr, OrtValue,
};

/// API version. Later libraries have it too.
const VERSION: u32 = 17;

/// The API and the version of a library, which is never unloaded.
struct Api(&'static OrtApi, String);

impl Api {
    fn load(path: &str) -> Result<Self> {
        // SAFETY: the initializers of ONNX Runtime have no preconditions.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(path)? }));
        // SAFETY: the type is that in onnxruntime_c_api.h.
        let base = unsafe { library.get::<unsafe extern "system" fn() -> *const OrtApiBase>(b"OrtGetApiBase")?() };
        // SAFETY: the base and the tables of all versions are statics of the library; the table of a missing version is null.
        let (api, version) = unsafe {
            let base = base.as_ref().context("OrtGetApiBase returned null")?;
            (((base.GetApi)(VERSION)).as_ref(), CStr::from_ptr((base.GetVersionString)()))
        };
        Ok(Self(api.context("this ONNX Runtime has no API 17")?, version.to_string_lossy().into_owned()))
    }

    fn check(&self, status: OrtStatusPtr) -> Result<()> {
        if status.0.is_null() {
            return Ok(());
        }
        // SAFETY: a status that is not null is valid until it is released. This one is leaked, because the program ends.
        bail!("{}", unsafe { CStr::from_ptr((self.0.GetErrorMessage)(status.0)) }.to_string_lossy())
    }
}

/// A tensor, and its memory.
struct Value {
    memory: Vec<f32>,
    value: *mut OrtValue,
}

impl Value {
    fn new(api: &Api, info: *const OrtMemoryInfo, mut memory: Vec<f32>, shape: &[i64]) -> Result<Self> {
        let mut value = ptr::null_mut();
        // SAFETY: `memory` has the given length. The heap block is neither moved nor freed while `value` exists, which is
        // leaked. `shape` is only read during the call.
        api.check(unsafe {
            (api.0.CreateTensorWithDataAsOrtValue)(
                info,
                memory.as_mut_ptr().cast::<c_void>(),
                memory.len() * size_of::<f32>(),
                shape.as_ptr(),
                shape.len(),
                ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                &mut value,
            )
        })?;
        Ok(Self { memory, value })
    }
}

/// The values that one call reads and writes.
struct Call {
    inputs: Vec<*const OrtValue>,
    outputs: Vec<*mut OrtValue>,
}

struct OnnxRuntime {
    api: Api,
    session: *mut OrtSession,
    /// Owns the names that the pointers below point to.
    _names: [Vec<CString>; 2],
    names: [Vec<*const c_char>; 2],
    /// The sequence, or the frames of a stream.
    frames: Vec<Value>,
    /// Both copies of the states of a stream. For a sequence: its output, and its mask if there is one.
    states: [Vec<Value>; 2],
    /// The output of a stream, if it is not the first state.
    output: Option<Value>,
    /// Even calls read the first copy of the states and write the second one; odd calls do the opposite. The first input is
    /// replaced by a frame.
    calls: [Call; 2],
    next: usize,
    odd: usize,
    stream: bool,
}

fn main() -> Result<()> {
    let case = Case::from_arguments()?;
    let variant = Case::variant()?;
    let (time, batch, input) = (case.number("steps")?, case.number("batch")?, case.number("input")?);
    let (output, stream) = (case.number("output")?, case.is_stream()?);
    let ports = if stream { Some(Ports::read(&case)?) } else { None };
    let x = case.floats("x.f32")?;
    let masks = if case.number("masked")? == 1 { Some(case.floats("mask.f32")?) } else { None };
    let model = case.path(match variant.as_str() {
        "int8" => "model-int8.onnx",
        "int8-rows" => "model-int8-rows.onnx",
        _ => "model.onnx",
    });
    let library = std::env::var("ONNXRUNTIME_LIB").context("ONNXRUNTIME_LIB is not set")?;
    serve(|| {
        let api = Api::load(&library)?;
        let (mut env, mut options, mut info, mut session) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let path = CString::new(model.as_os_str().as_encoded_bytes())?;
        // SAFETY: each function either writes a valid object to its last argument or returns a status. The objects are
        // passed on and live until the program ends. The strings end in 0.
        unsafe {
            let name = c"compare";
            api.check((api.0.CreateEnv)(OrtLoggingLevel::ORT_LOGGING_LEVEL_ERROR, name.as_ptr(), &mut env))?;
            api.check((api.0.CreateSessionOptions)(&mut options))?;
            api.check((api.0.SetIntraOpNumThreads)(options, 1))?;
            api.check((api.0.SetInterOpNumThreads)(options, 1))?;
            api.check((api.0.CreateSession)(env, path.as_ptr().cast(), options, &mut session))?;
            let kind = ort_sys::OrtAllocatorType::OrtArenaAllocator;
            api.check((api.0.CreateCpuMemoryInfo)(kind, OrtMemType::OrtMemTypeDefault, &mut info))?;
        }
        let value = |memory: Vec<f32>, shape: &[usize]| {
            let shape: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
            Value::new(&api, info, memory, &shape)
        };
        let zeros = |port: &Port| value(vec![0.0; port.elements()], &port.shape);
        let shape = ports.as_ref().map_or(vec![time, batch, input], |ports| ports.frame.shape.clone());
        let frames: Vec<Value> =
            x.chunks_exact(shape.iter().product()).map(|chunk| value(chunk.to_vec(), &shape)).collect::<Result<_>>()?;
        let mut shown = None;
        let (states, calls, names) = if let Some(Ports { frame, output, states }) = &ports {
            shown = output.as_ref().map(zeros).transpose()?;
            let make = || states.iter().map(|(state, _)| zeros(state)).collect::<Result<Vec<_>>>();
            let (first, second) = (make()?, make()?);
            let call = |from: &[Value], to: &[Value]| Call {
                inputs: [ptr::null()].into_iter().chain(from.iter().map(|v| v.value.cast_const())).collect(),
                outputs: shown.iter().chain(to).map(|v| v.value).collect(),
            };
            let calls = [call(&first, &second), call(&second, &first)];
            let inputs =
                [frame].into_iter().chain(states.iter().map(|(state, _)| state)).map(|port| port.name.as_str());
            let outputs = output.iter().map(|port| &port.name).chain(states.iter().map(|(_, next)| next));
            ([first, second], calls, [inputs.collect(), outputs.map(String::as_str).collect()])
        } else {
            let out = value(vec![0.0; time * batch * output], &[time, batch, output])?;
            let mask = masks.map(|mask| value(mask, &[time, batch, 1])).transpose()?;
            let call = || Call {
                inputs: [ptr::null()].into_iter().chain(mask.iter().map(|v| v.value.cast_const())).collect(),
                outputs: vec![out.value],
            };
            let (calls, inputs) = ([call(), call()], if mask.is_some() { vec!["x", "mask"] } else { vec!["x"] });
            ([vec![out], mask.into_iter().collect()], calls, [inputs, vec!["y"]])
        };
        let text = names.map(|names: Vec<&str>| {
            names.into_iter().map(|name| CString::new(name).expect("no 0")).collect::<Vec<_>>()
        });
        let names = text.each_ref().map(|names| names.iter().map(|name| name.as_ptr()).collect());
        let description = format!("onnxruntime {}", api.1);
        let runner = OnnxRuntime {
            api,
            session,
            _names: text,
            names,
            frames,
            states,
            output: shown,
            calls,
            next: 0,
            odd: 0,
            stream,
        };
        Ok((runner, description))
    })
}

impl Runner for OnnxRuntime {
    fn call(&mut self) -> Result<()> {
        let call = &mut self.calls[self.odd];
        call.inputs[0] = self.frames[self.next].value;
        let [inputs, outputs] = &self.names;
        // SAFETY: there are as many names as values, and all are alive. No output is also an input, and nothing else
        // accesses their memory during the call.
        let status = unsafe {
            (self.api.0.Run)(
                self.session,
                ptr::null(),
                inputs.as_ptr(),
                call.inputs.as_ptr(),
                call.inputs.len(),
                outputs.as_ptr(),
                call.outputs.len(),
                call.outputs.as_mut_ptr(),
            )
        };
        self.next = (self.next + 1) % self.frames.len();
        self.odd = usize::from(self.stream) & (self.odd ^ 1);
        self.api.check(status)
    }

    fn outputs(&mut self) -> Result<Vec<f32>> {
        (self.next, self.odd) = (0, 0);
        let mut all = Vec::new();
        if self.stream {
            self.states.iter_mut().flatten().for_each(|state| state.memory.fill(0.0));
        }
        for _ in 0..self.frames.len() {
            let written = usize::from(self.stream) & (self.odd ^ 1);
            self.call()?;
            all.extend_from_slice(&self.output.as_ref().unwrap_or(&self.states[written][0]).memory);
        }
        Ok(all)
    }
}
