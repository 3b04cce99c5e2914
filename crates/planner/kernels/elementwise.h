// One thread for four results of an elementwise expression, a block apart.

KERNEL(HP_NAME, 256, Args)
{
    UNROLL for (int j = 0; j < 4; ++j) {
        const int i = (BX * 4 + j) * 256 + TX;
        if (i < a.results) {
            IDX x = 0, y = 0, o[HP_OUT];
            int at[HP_AT];
            hp_start(a, x, y, o, at);
            hp_position(a, i, x, y, o, at);
            hp_finish(a, 0, o);
        }
    }
}
