// One thread for one result: sums over the depth in loops that the generated text holds. For what no tile fits: few columns, few
// channels, odd types; and for reductions.

KERNEL(HP_NAME, 256, Args)
{
    const int i = BX * 256 + TX;
    if (i < a.results) {
        IDX x = 0, y = 0, o[HP_OUT];
        int at[HP_AT];
        hp_start(a, x, y, o, at);
        hp_position(a, i, x, y, o, at);
        hp_finish(a, hp_sum(a, x, y, at), o);
    }
}
