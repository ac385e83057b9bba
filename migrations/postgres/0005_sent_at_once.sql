-- A call whose connection stands by the time it is written down is written down as sent. Its events tell both moves.
CREATE OR REPLACE FUNCTION ledger_proposed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_events (ledger_id, seq, from_state, to_state, epoch, actor, reason, at)
    SELECT after.id, move.seq, move.from_state, move.to_state, after.epoch, after.actor, after.reason, after.created_at
    FROM after, LATERAL (VALUES
        (1, 'proposed', CASE after.state WHEN 'sent' THEN 'claimed' ELSE after.state END),
        (2, 'claimed', 'sent')) AS move (seq, from_state, to_state)
    WHERE move.seq = 1 OR after.state = 'sent';
    RETURN NULL;
END $$;
