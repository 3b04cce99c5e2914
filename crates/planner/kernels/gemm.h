// Tiled product: every block computes HP_BM x HP_BN results, every thread HP_TM x HP_TN of them in registers.
//
// Tiles of both operands pass through shared memory, HP_BK deep and double-buffered: while one is multiplied, the next is on its way in
// registers. Threads bring elements along the depth where that is contiguous (HP_X_ALONG_K, HP_Y_ALONG_K), else along rows or columns; either
// way a thread's elements of one tile lie at one depth, so that the depth is taken apart once per tile.
//
// With HP_SPLIT, blocks of one result share its depth, and each writes its part of the sum.

#define HP_THREADS (HP_BM / HP_TM * (HP_BN / HP_TN))
#define HP_LANES (HP_THREADS / HP_BK)
#define HP_XE (HP_BM / HP_LANES)
#define HP_YE (HP_BN / HP_LANES)
#define HP_WARPS_M (HP_BM / (4 * HP_TM))

struct alignas(16) Quad {
    ACC v[4];
};

KERNEL(HP_NAME, HP_THREADS, Args)
{
    // A row of padding keeps threads that write along the depth on different banks.
    SHARED Quad xs[2][HP_BK][HP_BM / 4 + 1];
    SHARED Quad ys[2][HP_BK][HP_BN / 4 + 1];

    const int t = TX;
    const int tile_m = hp_div(BX, a.tiles_n), tile_n = BX - tile_m * (int)a.tiles_n.den;
    const int m0 = tile_m * HP_BM, n0 = tile_n * HP_BN;

    IDX x_start = 0, y_start = 0, o_start[HP_OUT];
    int at_start[HP_AT];
    hp_start(a, x_start, y_start, o_start, at_start);
    hp_batch(a, BY, x_start, y_start, o_start);
#ifdef HP_SPLIT
    const int k_begin = BZ * a.split_depth, k_end = k_begin + a.split_depth < a.depth ? k_begin + a.split_depth : a.depth;
    o_start[0] += (IDX)BZ * a.split_stride;
#else
    const int k_begin = 0, k_end = a.depth;
#endif

    // What this thread brings of each tile. Rows and columns beyond the last are read as the last; their results are not stored.
#ifdef HP_X_ALONG_K
    const int x_k = t % HP_BK, x_lane = t / HP_BK;
#else
    const int x_k = t / HP_LANES, x_lane = t % HP_LANES;
#endif
#ifdef HP_Y_ALONG_K
    const int y_k = t % HP_BK, y_lane = t / HP_BK;
#else
    const int y_k = t / HP_LANES, y_lane = t % HP_LANES;
#endif
    IDX x_row[HP_XE], y_column[HP_YE];
    int x_at[HP_XE][HP_AT];
    UNROLL for (int i = 0; i < HP_XE; ++i) {
        const int m = m0 + x_lane + i * HP_LANES;
        x_row[i] = x_start;
        UNROLL for (int w = 0; w < HP_WINDOWS; ++w) x_at[i][w] = at_start[w];
        hp_m_x(a, m < a.rows ? m : a.rows - 1, x_row[i], x_at[i]);
    }
    UNROLL for (int i = 0; i < HP_YE; ++i) {
        const int n = n0 + y_lane + i * HP_LANES;
        y_column[i] = y_start;
        hp_n_y(a, n < a.columns ? n : a.columns - 1, y_column[i]);
    }

    ACC x_next[HP_XE], y_next[HP_YE];
    const auto bring = [&](int k0) __attribute__((always_inline)) {
        const int kx = k0 + x_k, ky = k0 + y_k;
        IDX x_depth = 0, y_depth = 0;
        int at_depth[HP_AT];
        UNROLL for (int w = 0; w < HP_WINDOWS; ++w) at_depth[w] = 0;
        hp_k_x(a, kx, x_depth, at_depth);
        hp_k_y(a, ky, y_depth);
        UNROLL for (int i = 0; i < HP_XE; ++i) {
            int at[HP_AT];
            UNROLL for (int w = 0; w < HP_WINDOWS; ++w) at[w] = x_at[i][w] + at_depth[w];
            x_next[i] = kx < k_end && hp_inside(a, at) ? HP_LOAD_X(a.x, x_row[i] + x_depth) : (ACC)0;
        }
        UNROLL for (int i = 0; i < HP_YE; ++i) y_next[i] = ky < k_end ? HP_LOAD_Y(a.y, y_column[i] + y_depth) : (ACC)0;
    };
    const auto keep = [&](int buffer) __attribute__((always_inline)) {
        UNROLL for (int i = 0; i < HP_XE; ++i) {
            const int m = x_lane + i * HP_LANES;
            xs[buffer][x_k][m / 4].v[m % 4] = x_next[i];
        }
        UNROLL for (int i = 0; i < HP_YE; ++i) {
            const int n = y_lane + i * HP_LANES;
            ys[buffer][y_k][n / 4].v[n % 4] = y_next[i];
        }
    };

    // 32 threads form 4 rows by 8 columns, each of quads, so that they read few different words at a time.
    const int warp = t / 32, lane = t % 32;
    const int quad_m = warp % HP_WARPS_M * HP_TM + lane / 8, quad_n = warp / HP_WARPS_M * (2 * HP_TN) + lane % 8;

    ACC sum[HP_TM][HP_TN];
    UNROLL for (int i = 0; i < HP_TM; ++i) {
        UNROLL for (int j = 0; j < HP_TN; ++j) sum[i][j] = 0;
    }
    if (k_begin < k_end) {
        bring(k_begin);
        keep(0);
    }
    SYNC();
    int buffer = 0;
    for (int k0 = k_begin; k0 < k_end; k0 += HP_BK) {
        const bool more = k0 + HP_BK < k_end;
        if (more) bring(k0 + HP_BK);
        UNROLL_SOME for (int k = 0; k < HP_BK; ++k) {
            Quad x[HP_TM / 4], y[HP_TN / 4];
            UNROLL for (int i = 0; i < HP_TM / 4; ++i) x[i] = xs[buffer][k][quad_m + 4 * i];
            UNROLL for (int j = 0; j < HP_TN / 4; ++j) y[j] = ys[buffer][k][quad_n + 8 * j];
            UNROLL for (int i = 0; i < HP_TM; ++i) {
                UNROLL for (int j = 0; j < HP_TN; ++j) sum[i][j] = hp_step(sum[i][j], x[i / 4].v[i % 4], y[j / 4].v[j % 4]);
            }
        }
        if (more) keep(buffer ^ 1);
        buffer ^= 1;
        SYNC();
    }

    UNROLL for (int i = 0; i < HP_TM; ++i) {
        const int m = m0 + (quad_m + i / 4 * 4) * 4 + i % 4;
        if (m < a.rows) {
            IDX o_row[HP_OUT];
            UNROLL for (int e = 0; e < HP_OUT; ++e) o_row[e] = o_start[e];
            hp_m_out(a, m, o_row);
            UNROLL for (int j = 0; j < HP_TN; ++j) {
                const int n = n0 + (quad_n + j / 4 * 8) * 4 + j % 4;
                if (n < a.columns) {
                    IDX o[HP_OUT];
                    UNROLL for (int e = 0; e < HP_OUT; ++e) o[e] = o_row[e];
                    hp_n_out(a, n, o);
                    hp_finish(a, sum[i][j], o);
                }
            }
        }
    }
}
