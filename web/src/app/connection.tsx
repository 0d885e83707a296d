/** A slim line while the server is away. */
import { useEffect, useState, type ReactNode } from 'react';
import { client } from '@/api/queries';
import { socket } from '@/api/stream-fetch';

const PATIENCE = 1200;

export function ConnectionLine(): ReactNode {
  const lost = useLost();
  if (!lost) return null;
  return (
    <div role="status" className="shrink-0 bg-warn-soft px-4 py-1 text-center text-xs font-medium text-warn">
      Connection lost, trying again…
    </div>
  );
}

/** Was there a connection, and is there none for a while? (Where a proxy forbids sockets there never is one.) */
function useLost(): boolean {
  const [lost, setLost] = useState(false);
  useEffect(() => {
    let had = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const leave = socket.listen(
      () => {},
      (connected) => {
        if (connected) {
          had = true;
          clearTimeout(timer);
          timer = undefined;
          setLost(false);
        } else if (had && timer === undefined) {
          timer = setTimeout(() => setLost(true), PATIENCE);
          // An ended session closes the socket, too: then this is answered with 401, and guard.ts shows the way.
          void client.invalidateQueries({ queryKey: ['session'] });
        }
      },
    );
    return () => {
      clearTimeout(timer);
      leave();
    };
  }, []);
  return lost;
}
