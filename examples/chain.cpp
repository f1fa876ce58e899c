// A chain by the C library from C++17: y = mish(GroupNorm(x W^T)) by every version that runs it here.
//
//     make install PREFIX=$HOME/fgn
//     export PKG_CONFIG_PATH=$HOME/fgn/lib/pkgconfig
//     c++ -std=c++17 chain.cpp $(pkg-config --cflags --libs fgn-sim) -Wl,-rpath,$HOME/fgn/lib -o chain
//     ./chain
//
// With CMake: find_package(fgn REQUIRED), target_link_libraries(chain PRIVATE fgn::sim).
#include <fgn.h>

#include <cstdio>
#include <vector>

int main() {
    const long long batch = 4, in_features = 32, out_features = 64;
    std::vector<float> x(batch * in_features), weight(out_features * in_features), y(batch * out_features);
    for (std::size_t i = 0; i < x.size(); i++)
        x[i] = static_cast<float>(i % 7) - 3.0f;
    for (std::size_t i = 0; i < weight.size(); i++)
        weight[i] = static_cast<float>(i % 5) - 2.0f;

    fgn_chain chain{};
    chain.batch = batch, chain.in_features = in_features, chain.out_features = out_features;
    chain.groups = 8;
    chain.eps = 1e-5f;
    chain.weight = weight.data();
    chain.after_count = 1;
    chain.after[0].kind = FGN_MISH;
    for (int version = 0; version < fgn_version_count(); version++) {
        fgn_plan plan;
        if (fgn_plan_chain(version, &chain, nullptr, &plan) != FGN_OK || plan.prepared_bytes > 0)
            continue;
        std::vector<float> workspace(plan.workspace_bytes / sizeof(float) + 1);
        if (fgn_run(&plan, &chain, x.data(), y.data(), workspace.data(), plan.workspace_bytes, nullptr) !=
            FGN_OK) {
            std::fprintf(stderr, "%s\n", fgn_last_error());
            return 1;
        }
        double sum = 0.0;
        for (float value : y)
            sum += static_cast<double>(value) * value;
        std::printf("%s: the mean square of y is %.4f\n", fgn_version_at(version)->name, sum / y.size());
    }
}
