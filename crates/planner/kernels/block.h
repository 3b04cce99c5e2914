// One block for one result: its threads share the depth, and their parts are combined in a fixed order. For few results of great depth.

KERNEL(HP_NAME, 256, Args)
{
    SHARED ACC parts[256];
    const int t = TX;
    IDX x_start = 0, y_start = 0, o[HP_OUT];
    int at_start[HP_AT];
    hp_start(a, x_start, y_start, o, at_start);
    hp_position(a, BX, x_start, y_start, o, at_start);
    ACC sum = hp_initial();
    for (int k = t; k < a.depth; k += 256) {
        IDX x = x_start, y = y_start;
        int at[HP_AT];
        UNROLL for (int w = 0; w < HP_WINDOWS; ++w) at[w] = at_start[w];
        hp_k_x(a, k, x, at);
        hp_k_y(a, k, y);
        if (hp_inside(a, at)) sum = hp_step(sum, HP_LOAD_X(a.x, x), HP_LOAD_Y(a.y, y));
    }
    parts[t] = sum;
    SYNC();
    for (int width = 128; width > 0; width /= 2) {
        if (t < width) parts[t] = hp_combine(parts[t], parts[t + width]);
        SYNC();
    }
    if (t == 0) hp_finish(a, parts[0], o);
}
