/** What can be done with a message: the usual at hand, the rest in a menu. */
import { Braces, Ellipsis, GitFork, ListPlus, MessageSquareShare, Pencil, RotateCw, Trash2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import type { ChatMessage, MessageActs } from '@/chat/message';
import { IconButton } from '@/ui/button';
import { Dialog } from '@/ui/dialog';
import { Menu, MenuItem, MenuLine } from '@/ui/menu';
import { tellError } from '@/ui/toast';
import { CopyButton } from '@/ui/copy-button';
import { JsonView } from './json-view';
import { spoken } from './part-groups';
import { RatingView } from './rating-view';

interface Props {
  message: ChatMessage;
  acts: MessageActs;
  edit: (() => void) | undefined;
}

export function ActsBar({ message, acts, edit }: Props): ReactNode {
  const { rate, rerun, fork, keep, remove, resume } = acts;
  const [raw, setRaw] = useState(false);
  const mine = message.role !== 'assistant';
  const again = mine ? 'Answer again' : 'Regenerate';
  return (
    <div className="flex items-center">
      {!mine && rate && <RatingView feedback={message.metadata?.feedback} rate={rate} />}
      {mine && edit && <IconButton size="small" label="Edit" onClick={edit}><Pencil /></IconButton>}
      {rerun && <IconButton size="small" label={again} onClick={() => void rerun().catch(tellError)}><RotateCw /></IconButton>}
      {resume && <IconButton size="small" label="Continue from here" onClick={() => void resume().catch(tellError)}><MessageSquareShare /></IconButton>}
      <CopyButton label="Copy text" text={() => spoken(message.parts)} />
      <IconButton size="small" label="Raw JSON" onClick={() => setRaw(true)}><Braces /></IconButton>
      {(fork || remove || (!mine && edit)) && (
        <Menu align={mine ? 'end' : 'start'} trigger={<IconButton size="small" label="More"><Ellipsis /></IconButton>}>
          {!mine && edit && <MenuItem icon={<Pencil />} onSelect={edit}>Edit</MenuItem>}
          {fork && <MenuItem icon={<GitFork />} onSelect={() => void fork().catch(tellError)}>Fork into a new thread</MenuItem>}
          {keep && <MenuItem icon={<ListPlus />} onSelect={keep}>Add to test set</MenuItem>}
          {remove && (fork || (!mine && edit)) && <MenuLine />}
          {remove && <MenuItem danger icon={<Trash2 />} onSelect={() => void remove().catch(tellError)}>Delete</MenuItem>}
        </Menu>
      )}
      <Dialog open={raw} onClose={() => setRaw(false)} title="Raw JSON" wide>
        {raw && <JsonView value={message} open={3} />}
      </Dialog>
    </div>
  );
}
