-- A call whose connection stands by the time it is written down is written down as sent. Its events tell both moves.
DROP TRIGGER ledger_proposed;

CREATE TRIGGER ledger_proposed AFTER INSERT ON ledger
BEGIN
    INSERT INTO ledger_events (ledger_id, seq, from_state, to_state, epoch, actor, reason, at)
    VALUES (NEW.id, 1, 'proposed', CASE NEW.state WHEN 'sent' THEN 'claimed' ELSE NEW.state END, NEW.epoch, NEW.actor,
        NEW.reason, NEW.created_at);
    INSERT INTO ledger_events (ledger_id, seq, from_state, to_state, epoch, actor, reason, at)
    SELECT NEW.id, 2, 'claimed', 'sent', NEW.epoch, NEW.actor, NEW.reason, NEW.created_at WHERE NEW.state = 'sent';
END;
