// The common part of the drivers in C++: reads a case from its folder and executes the commands on standard input, as
// `protocol/src/lib.rs` does. `../README.md` describes the protocol.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace compare {

class Case {
public:
    explicit Case(std::string folder) : folder_(std::move(folder)) {
        std::ifstream text(folder_ + "/case.txt");
        for (std::string name, value; text >> name >> value;) fields_[name] = value;
    }
    std::string text(const std::string& name) const { return fields_.at(name); }
    int number(const std::string& name) const { return std::stoi(text(name)); }
    std::vector<float> floats(const std::string& name) const {
        std::ifstream file(folder_ + "/" + name, std::ios::binary | std::ios::ate);
        if (!file) throw std::runtime_error("no " + name);
        std::vector<float> values(static_cast<size_t>(file.tellg()) / sizeof(float));
        file.seekg(0);
        file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
        return values;
    }

private:
    std::string folder_;
    std::map<std::string, std::string> fields_;
};

struct Runner {
    virtual ~Runner() = default;
    // The next step of an endless stream over the case's frames, or the whole sequence from a zero state.
    virtual void call() = 0;
    // The outputs of every step of the case from a zero state, [time, batch, size].
    virtual std::vector<float> outputs() = 0;
    virtual std::string description() const = 0;
};

inline int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Load>
int serve(Load load) {
    try {
        const int64_t begin = now();
        std::unique_ptr<Runner> runner = load();
        const int64_t loaded = now();
        runner->call();
        std::cout << "ready " << loaded - begin << " " << now() - loaded << " " << runner->description() << std::endl;
        for (std::string line; std::getline(std::cin, line);) {
            std::istringstream words(line);
            std::string command, argument;
            words >> command >> argument;
            if (command == "run") {
                const long calls = std::stol(argument);
                const int64_t start = now();
                for (long call = 0; call < calls; ++call) runner->call();
                std::cout << now() - start << std::endl;
            } else {
                const std::vector<float> all = runner->outputs();
                std::ofstream file(argument, std::ios::binary);
                file.write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size() * sizeof(float)));
                file.close();
                std::cout << "ok" << std::endl;
            }
        }
        return 0;
    } catch (const std::exception& error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
}

}  // namespace compare
