/* How long L2 takes for atomics of a few lines, and DRAM for vectors that blocks copy in pieces.
 *
 *     nvcc -O3 -std=c++17 -arch=native -o atomics lab/atomics.cu && ./atomics > atomics.csv
 *
 * Idea: each warp makes requests whose places stand in a table, so that one kernel makes every pattern: lanes
 * anywhere in some lines, side by side in one, at a few addresses where they meet; all blocks in the same
 * lines, or each in its own (`apart`). A row says how many lines and sectors a request has, and how many
 * clocks of 1.98 GHz all requests took, for each of them. The record is lab/records/atomics.csv.xz. */
#include "../cudasim/predicting/microbenchmarks/measure.h"

#define PATTERNS 1024
#define WARPS 8
#define CLOCK_HZ 1.98e9

/* Warps make `rounds` requests each, their lanes at the table's places. */
template <typename T> __global__ void update(T *data, const int *table, int rounds, int lanes, int apart) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    T *own = data + (size_t)apart * blockIdx.x;
    if (lane >= lanes)
        return;
    for (int i = 0; i < rounds; i++)
        atomicAdd(own + table[((warp * 37 + i) & (PATTERNS - 1)) * 32 + lane], (T)1);
}

enum Pattern { ANYWHERE, SIDE_BY_SIDE, MEETING, IN_GROUPS };

struct Case {
    const char *name;
    Pattern pattern;
    int lines, lanes;
    int addresses; /* at which lanes meet, or how many groups they are */
    int apart;     /* numbers from one block's to the next one's; 0: all have the same */
};

static int place(const Case &of, int line, int lane) {
    switch (of.pattern) {
    case ANYWHERE:
        return rand() % (32 * of.lines);
    case MEETING:
        return 32 * line + rand() % of.addresses;
    case IN_GROUPS:
        return 32 * line + lane / (32 / of.addresses);
    default:
        return 32 * line + lane;
    }
}

static int different(std::vector<int> values) {
    std::sort(values.begin(), values.end());
    return (int)(std::unique(values.begin(), values.end()) - values.begin());
}

template <typename T>
void print_row(const Machine &machine, const Case &of, const char *type, int blocks, int rounds) {
    std::vector<int> table(PATTERNS * 32);
    double lines = 0, sectors = 0;
    srand(1);
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        int line = rand() % of.lines;
        std::vector<int> in_lines, in_sectors;
        for (int lane = 0; lane < 32; lane++) {
            int at = table[pattern * 32 + lane] = place(of, line, lane);
            if (lane < of.lanes)
                in_lines.push_back(at / 32), in_sectors.push_back(at / 8);
        }
        lines += different(in_lines);
        sectors += different(in_sectors);
    }
    Memory<T> data((size_t)of.lines * 32 + (size_t)of.apart * blocks);
    Memory<int> places(table.size());
    CHECK(cudaMemcpy(places.data, table.data(), table.size() * sizeof(int), cudaMemcpyHostToDevice));
    double seconds = median(seconds_of(machine, [&] {
        update<T><<<blocks, 32 * WARPS>>>(data.data, places.data, rounds, of.lanes, of.apart);
    }));
    double requests = (double)blocks * WARPS * rounds;
    printf("%s,%s,%d,%d,%d,%d,%d,%.1f,%.2f,%.2f,%.3f\n", of.name, type, of.lines, of.lanes, of.addresses,
           of.apart, blocks, 1e6 * seconds, lines / PATTERNS, sectors / lines, seconds * CLOCK_HZ / requests);
}

/* Each block copies a piece of its own. */
template <typename T> __global__ void copy_pieces(const T *from, T *to, size_t count, size_t piece) {
    size_t begin = blockIdx.x * piece, end = begin + piece < count ? begin + piece : count;
    for (size_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        to[i] = from[i];
}

template <typename T> void print_pieces(const Machine &machine, const char *type) {
    size_t count = (128u << 20) / sizeof(T);
    Memory<T> from(count), to(count);
    for (int blocks : {500, 528, 1001, 1024, 1056, 2001}) {
        size_t piece = (count + blocks - 1) / blocks;
        double seconds = median(
            seconds_of(machine, [&] { copy_pieces<T><<<blocks, 256>>>(from.data, to.data, count, piece); }));
        bool are_lines = piece * sizeof(T) % 128 == 0;
        printf("pieces%s,%s,,,,,%d,%.1f,,,\n", are_lines ? " of whole lines" : "", type, blocks,
               1e6 * seconds);
    }
}

int main() {
    Machine machine = {};
    machine.repetitions = 5;
    std::vector<Case> cases;
    for (int lines : {1, 2, 4, 8, 16, 32, 64, 128, 512, 4096, 32768}) {
        cases.push_back({"anywhere", ANYWHERE, lines, 32, 0, 0});
        cases.push_back({"a line", SIDE_BY_SIDE, lines, 32, 0, 0});
        cases.push_back({"a float", SIDE_BY_SIDE, lines, 1, 0, 0});
    }
    for (int lanes : {2, 4, 8, 9, 16, 17, 24})
        cases.push_back({"side by side", SIDE_BY_SIDE, 1, lanes, 0, 0});
    for (int addresses : {1, 2, 3, 4, 7, 8, 10, 12, 16, 24, 32})
        cases.push_back({"meeting", MEETING, 1, 32, addresses, 0});
    for (int lines : {1, 8, 64, 4096})
        for (int addresses : {1, 2, 4, 8, 16})
            cases.push_back({"in groups", IN_GROUPS, lines, 32, addresses, 0});
    for (int lines : {1, 8, 32})
        cases.push_back({"own, anywhere", ANYWHERE, lines, 32, 0, 32 * lines});
    printf("pattern,type,lines,lanes,addresses,apart,blocks,us,lines_of_request,sectors_of_line,clocks\n");
    for (const Case &of : cases) {
        print_row<int>(machine, of, "int", 132 * 4, 16);
        print_row<float>(machine, of, "float", 132 * 4, 16);
    }
    print_pieces<float>(machine, "float");
    print_pieces<double>(machine, "double");
}
